//! `./x man`: a manual page for each tool and completions for shells, made from the output of `--help`, which
//! the tools make from their tables of options. The server's options are its parameters:
//! docs/configuration.md has them, made from their table. The results are tried: pages by man, completions by
//! each shell that is installed.

mod help;
mod page;
mod shells;

use crate::run::{Outcome, built, in_root, root, text_of};
use clap::{Arg, ArgAction, Command, ValueHint};
use help::{Help, options_of, parameters, read};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command as Process;

/// Where they are made.
#[derive(clap::Args)]
pub struct Options {
    /// The program that is asked.
    #[arg(long, default_value_os_t = in_root("target/release/martlet"))]
    pub program: PathBuf,
    /// The directory for pages; completions are beside them in `completions`.
    #[arg(long, default_value_os_t = in_root("target/man"))]
    pub output: PathBuf,
}

/// A tool, as `martlet --help` lists it.
#[derive(Debug, PartialEq, Eq)]
struct Tool {
    name: String,
    about: String,
}

/// The pages and completions of `program` in `target/man`, where packages take them from.
///
/// # Errors
/// As of the chore.
pub fn make(program: &Path) -> Outcome {
    run(&Options { program: program.into(), output: in_root("target/man") })
}

/// Makes everything, and fails when an option is missing on a page, or a page or a completion is no good.
pub fn run(options: &Options) -> Outcome {
    let program = built(&options.program)?;
    let output = std::path::absolute(&options.output)?;
    std::fs::create_dir_all(&output)?;
    let parameters = parameters(&text_of(&root().join("docs/configuration.md"))?);
    let mut main = read(&help_of(&program, &[])?);
    let listed = tools(&help_of(&program, &[])?);
    main.prose = MAIN.into();
    let mut all = command("martlet", "an in-memory data server, and its tools", &Help::default());
    let mut findings = Vec::new();
    for tool in &listed {
        let text = help_of(&program, &[&tool.name])?;
        let mut help = read(&text);
        if tool.name == "server" {
            help.options.extend(parameters.clone());
        }
        let name = format!("martlet-{}", tool.name);
        let page = page::page(command(&name, &tool.about, &help), &help, &["martlet".into()])?;
        std::fs::write(output.join(format!("{name}.1")), &page)?;
        findings.extend(missing_options(&text, &help, &page).map(|option| format!("{name}.1: no {option}")));
        findings.extend(page::complaints(&output.join(format!("{name}.1")))?);
        let mut tool_command = command(&tool.name, &tool.about, &help);
        if help.takes_files() {
            tool_command = tool_command.arg(shells::files());
        }
        all = all.subcommand(tool_command);
    }
    let others: Vec<String> = listed.iter().map(|tool| format!("martlet-{}", tool.name)).collect();
    std::fs::write(output.join("martlet.1"), page::page(all.clone(), &main, &others)?)?;
    findings.extend(page::complaints(&output.join("martlet.1"))?);
    let completions = output.join("completions");
    shells::write(&all, &completions)?;
    findings.extend(shells::complaints(&completions)?);
    findings.iter().for_each(|finding| println!("{finding}"));
    println!("{}: pages and completions", output.display());
    if findings.is_empty() { Ok(()) } else { Err(format!("{} complaints", findings.len()).into()) }
}

/// The program's own page, before the list of its tools.
const MAIN: &str = "\
Martlet is an in-memory data server that speaks the Redis protocol. One program is the
server and its tools: the first word says which, or the name of the link that it is
called by.";

/// A tool's help text.
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

/// Options that are in the help text and not on the page.
fn missing_options<'a>(text: &str, help: &'a Help, page: &str) -> impl Iterator<Item = String> + use<'a> {
    let plain = page.replace("\\-", "-");
    let read = help.options.iter().flat_map(|option| option.names.iter().cloned());
    let all: Vec<String> = options_of(text).into_iter().chain(read).collect();
    all.into_iter().filter(move |name| !plain.contains(name.as_str()))
}

/// The program for clap, whose generators want texts that live as long as this process does.
fn command(name: &str, about: &str, help: &Help) -> Command {
    let leaked = |text: String| -> &'static str { text.leak() };
    let mut command = Command::new(leaked(name.into()))
        .about(leaked(about.into()))
        .disable_help_flag(true)
        .disable_help_subcommand(true)
        .disable_version_flag(true);
    for option in help.options.clone() {
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

/// The kind of a value's completion in shells.
fn hint(value: &str) -> ValueHint {
    match value {
        "FILE" | "PATH" | "SOCKET" | "CACERT" => ValueHint::FilePath,
        "DIR" => ValueHint::DirPath,
        "HOST" => ValueHint::Hostname,
        _ => ValueHint::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use help::tests::HELP;

    #[test]
    fn a_page_has_every_option_of_its_help() {
        let help = read(HELP);
        let made =
            page::page(command("martlet-tool", "does", &help), &help, &["martlet".into()]).expect("made");
        assert_eq!(missing_options(HELP, &help, &made).collect::<Vec<_>>(), [""; 0]);
        let without = made.replace("pass", "");
        assert_eq!(missing_options(HELP, &help, &without).collect::<Vec<_>>(), ["--pass", "--pass"]);
        assert!(made.contains("how to get in") && made.contains("What it is good for."), "{made}");
    }

    #[test]
    fn tools_are_found() {
        let listed =
            "Martlet\n\nTools:\n  server     serve\n             also as a link\n  cli        send\n";
        let names: Vec<String> = tools(listed).into_iter().map(|tool| tool.name).collect();
        assert_eq!(names, ["server", "cli"]);
    }
}
