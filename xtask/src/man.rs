//! `./x man`: a manual page for each tool and completions for shells, made from what `--help` says, which
//! the tools make from their tables of options. The server's options are its parameters:
//! docs/configuration.md has them, made from their table.

use crate::run::{Outcome, built, in_root, root, text_of};
use clap::{Arg, ArgAction, Command, ValueHint};
use clap_complete::{Shell, generate_to};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

/// Where they are made.
#[derive(clap::Args)]
pub struct Options {
    /// The program that is asked.
    #[arg(long, default_value = "target/release/martlet")]
    program: PathBuf,
    /// The directory for pages; completions are beside them in `completions`.
    #[arg(long, default_value = "target/man")]
    output: PathBuf,
}

/// One option of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Opt {
    /// With their dashes.
    names: Vec<String>,
    value: Option<String>,
    about: String,
    /// The heading that it stands under.
    group: String,
}

/// What a help text says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Help {
    options: Vec<Opt>,
    /// Lines that are no options.
    prose: String,
}

/// A tool, as `martlet --help` lists it.
#[derive(Debug, PartialEq, Eq)]
struct Tool {
    name: String,
    about: String,
}

/// Makes everything, and fails when an option is missing on a page.
pub fn run(options: &Options) -> Outcome {
    let program = built(&in_root(&options.program.to_string_lossy()))?;
    let output = in_root(&options.output.to_string_lossy());
    let completions = output.join("completions");
    std::fs::create_dir_all(&completions)?;
    let parameters = parameters(&text_of(&root().join("docs/configuration.md"))?);
    let mut all = command("martlet", "an in-memory data server, and its tools", Help::default());
    let mut missing = Vec::new();
    for tool in tools(&help_of(&program, &[])?) {
        let text = help_of(&program, &[&tool.name])?;
        let mut help = read(&text);
        if tool.name == "server" {
            help.options.extend(parameters.clone());
        }
        let page_name = format!("martlet-{}", tool.name);
        let page = page(command(&page_name, &tool.about, help.clone()))?;
        std::fs::write(output.join(format!("{page_name}.1")), &page)?;
        missing.extend(missing_options(&text, &help, &page).map(|name| format!("{page_name}.1: {name}")));
        all = all.subcommand(command(&tool.name, &tool.about, help));
    }
    std::fs::write(output.join("martlet.1"), page(all.clone())?)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        generate_to(shell, &mut all, "martlet", &completions)?;
    }
    missing.iter().for_each(|finding| println!("{finding}"));
    println!("{}: pages and completions", output.display());
    if missing.is_empty() { Ok(()) } else { Err(format!("{} options are missing", missing.len()).into()) }
}

/// What a tool says of itself.
fn help_of(program: &Path, tool: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = Process::new(program).args(tool).arg("--help").output()?;
    if !output.status.success() || output.stdout.is_empty() {
        return Err(format!("martlet {} --help: {}", tool.join(" "), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The tools that the program lists.
fn tools(help: &str) -> Vec<Tool> {
    let listed = help.lines().skip_while(|line| *line != "Tools:").skip(1);
    let named = listed.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let split = named.filter_map(|line| line.split_once(' '));
    split.map(|(name, about)| Tool { name: name.into(), about: about.trim().into() }).collect()
}

/// Words of a help text that are options wherever they stand, examples apart.
fn options_of(help: &str) -> Vec<String> {
    let before_examples = help.split("\nExamples:").next().unwrap_or_default();
    let mut is_usage = false;
    let mut words = Vec::new();
    for line in before_examples.lines() {
        is_usage = !line.is_empty() && (is_usage || line.starts_with("Usage:"));
        let bare = line.trim_start();
        // What an option does may name others.
        let left = if is_usage { bare } else { bare.split("  ").next().unwrap_or_default() };
        if is_usage || bare.starts_with('-') {
            words.extend(left.split([' ', ',', '[', ']', '|']));
        }
    }
    words.retain(|word| word.len() > 1 && word.starts_with('-') && *word != "--");
    words.into_iter().map(str::to_string).collect()
}

/// Options that are in the help text and not on the page.
fn missing_options<'a>(text: &str, help: &'a Help, page: &str) -> impl Iterator<Item = String> + use<'a> {
    let plain = page.replace("\\-", "-");
    let read = help.options.iter().flat_map(|option| option.names.iter().cloned());
    let all: Vec<String> = options_of(text).into_iter().chain(read).collect();
    all.into_iter().filter(move |name| !plain.contains(name.as_str()))
}

/// Reads a help text.
fn read(text: &str) -> Help {
    let mut help = Help::default();
    let mut group = String::new();
    let mut in_option = false;
    for line in text.lines() {
        let bare = line.trim_start();
        let indent = line.len() - bare.len();
        if bare.is_empty() {
            in_option = false;
            help.prose.push('\n');
        } else if indent >= 2 && bare.starts_with('-') && !group.starts_with("Examples") {
            help.options.push(Opt { group: group.clone(), ..Opt::read(bare) });
            in_option = true;
        } else if in_option && indent >= 6 {
            let about = help.options.last_mut().map(|option| &mut option.about);
            about.into_iter().for_each(|about| about.push_str(&format!(" {bare}")));
        } else if let (0, Some(title)) = (indent, line.strip_suffix(':')) {
            group = title.into();
            in_option = false;
            if group.starts_with("Examples") {
                help.prose.push_str(&format!("{line}\n"));
            }
        } else {
            help.prose.push_str(&format!("{line}\n"));
        }
    }
    help.options.iter_mut().for_each(|option| option.about = option.about.trim().into());
    help.prose = help.prose.trim().into();
    help
}

impl Opt {
    /// `-a, --pass PASSWORD   what it does`. Where the left side is long only its value's capitals end it.
    fn read(line: &str) -> Opt {
        let mut option = Opt::default();
        let mut rest = line;
        while rest.starts_with('-') {
            let end = rest.find([' ', ',']).unwrap_or(rest.len());
            option.names.push(rest[..end].into());
            rest = rest[end..].strip_prefix(", ").unwrap_or(&rest[end..]);
        }
        let value = rest.strip_prefix(' ').filter(|rest| !rest.starts_with(' '));
        if let Some(value) = value {
            let end = value.find(' ').unwrap_or(value.len());
            let word = &value[..end];
            if word.contains(|c: char| c.is_ascii_uppercase())
                && !word.contains(|c: char| c.is_ascii_lowercase())
            {
                option.value = Some(word.trim_matches(['<', '>']).into());
                rest = &value[end..];
            }
        }
        option.about = rest.trim().into();
        option
    }
}

/// The parameters that a page has in its first table.
fn parameters(page: &str) -> Vec<Opt> {
    let table =
        page.split("## In effect").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap_or_default();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let row = |line: &str| {
        let (name, rest) = line.split_once('`')?;
        let cells: Vec<&str> = rest.split(" | ").collect();
        let [_, .., about] = cells.as_slice() else { return None };
        Some(Opt {
            names: vec![format!("--{name}")],
            value: Some("VALUE".into()),
            about: about.trim_end_matches(['|', ' ']).replace(['`', '*'], ""),
            group: "Parameters".into(),
        })
    };
    rows.filter_map(row).collect()
}

/// The program for clap, whose generators want texts that live as long as this process does.
fn command(name: &str, about: &str, help: Help) -> Command {
    let leaked = |text: String| -> &'static str { text.leak() };
    let mut command = Command::new(leaked(name.into()))
        .about(leaked(about.into()))
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .disable_version_flag(true)
        .after_help(leaked(help.prose));
    for option in help.options {
        // A page has only one long name of each by itself.
        let others: Vec<&str> =
            option.names.iter().filter(|name| name.starts_with("--")).skip(1).map(String::as_str).collect();
        let also = if others.is_empty() { String::new() } else { format!(" (also {})", others.join(", ")) };
        let about = format!("{}{also}", option.about);
        let mut argument = Arg::new(leaked(option.names.join(" "))).help(leaked(about));
        for name in option.names {
            argument = match (name.strip_prefix("--"), name.strip_prefix('-').map(|rest| rest.chars())) {
                (Some(long), _) if argument.get_long().is_none() => argument.long(leaked(long.into())),
                (Some(long), _) => argument.visible_alias(leaked(long.into())),
                (None, Some(mut rest)) => argument.short(rest.next()),
                (None, None) => argument,
            };
        }
        if !option.group.is_empty() {
            argument = argument.help_heading(leaked(option.group));
        }
        argument = match option.value {
            None => argument.action(ArgAction::SetTrue),
            Some(value) => argument.value_hint(hint(&value)).value_name(leaked(value)),
        };
        command = command.arg(argument);
    }
    command
}

/// What a shell completes a value with.
fn hint(value: &str) -> ValueHint {
    match value {
        "FILE" | "PATH" | "SOCKET" | "CACERT" => ValueHint::FilePath,
        "DIR" => ValueHint::DirPath,
        "HOST" => ValueHint::Hostname,
        _ => ValueHint::Other,
    }
}

fn page(command: Command) -> Result<String, Box<dyn Error>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(String::from_utf8(page)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "Usage: tool [OPTIONS] FILE
       tool -v | --version

What it is good for.

Connection:
  -h HOST              where it is (127.0.0.1)
  -a, --pass PASSWORD  how to get in
  --tls-ciphersuites-of-all LIST they are tried in turn
      --listen <ADDRESS>
          Where to listen

Options:
  --csv                CSV
                       of all

Examples:
  tool -x SET
";

    #[test]
    fn a_help_text_is_read() {
        let help = read(HELP);
        let names: Vec<String> = help.options.iter().map(|option| option.names.join(" ")).collect();
        assert_eq!(names, ["-h", "-a --pass", "--tls-ciphersuites-of-all", "--listen", "--csv"]);
        let values: Vec<Option<&str>> = help.options.iter().map(|option| option.value.as_deref()).collect();
        assert_eq!(values, [Some("HOST"), Some("PASSWORD"), Some("LIST"), Some("ADDRESS"), None]);
        let about: Vec<&str> = help.options.iter().map(|option| option.about.as_str()).collect();
        let expected = [
            "where it is (127.0.0.1)",
            "how to get in",
            "they are tried in turn",
            "Where to listen",
            "CSV of all",
        ];
        assert_eq!(about, expected);
        assert_eq!(
            (help.options[0].group.as_str(), help.options[4].group.as_str()),
            ("Connection", "Options")
        );
        assert!(help.prose.starts_with("Usage: tool") && help.prose.ends_with("Examples:\n  tool -x SET"));
    }

    #[test]
    fn a_page_has_every_option_of_its_help() {
        let help = read(HELP);
        let made = page(command("martlet-tool", "does", help.clone())).expect("made");
        assert_eq!(missing_options(HELP, &help, &made).collect::<Vec<_>>(), [""; 0]);
        let without = made.replace("pass", "");
        assert_eq!(missing_options(HELP, &help, &without).collect::<Vec<_>>(), ["--pass", "--pass"]);
        assert!(made.contains("how to get in") && made.contains("What it is good for."), "{made}");
    }

    #[test]
    fn tools_and_parameters_are_found() {
        let listed =
            "Martlet\n\nTools:\n  server     serve\n             also as a link\n  cli        send\n";
        let names: Vec<String> = tools(listed).into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["server", "cli"]);
        let page = "## In effect\n\n| parameter | takes |\n|---|---|\n| `port` | 0 to 65535 | `6379` | TCP port |\n## Kept\n| `x` |";
        let parameters = parameters(page);
        assert_eq!((parameters.len(), parameters[0].names[0].as_str()), (1, "--port"));
        assert_eq!(parameters[0].about, "TCP port");
    }
}
