//! The content of a tool's help text: its usage, its options with their descriptions, and the paragraphs
//! between.

/// One option of a tool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opt {
    /// With their dashes.
    pub names: Vec<String>,
    /// The placeholder of its value, if it takes one.
    pub value: Option<String>,
    /// Its description.
    pub about: String,
    /// The heading that it stands under.
    pub group: String,
}

/// The content of a help text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Help {
    /// Command lines, without the word before the first.
    pub usage: Vec<String>,
    /// In the text's order.
    pub options: Vec<Opt>,
    /// Lines that are neither of these.
    pub prose: String,
    /// Command lines, and their descriptions.
    pub examples: Vec<String>,
}

impl Help {
    /// Whether the words after the options name files: where they are something else the usage has
    /// `[OPTIONS]` before them.
    pub fn takes_files(&self) -> bool {
        !self.usage.is_empty() && !self.usage.iter().any(|line| line.contains("[OPTIONS]"))
    }
}

/// A title has few words; a longer line is a sentence.
const LONGEST_TITLE_WORDS: usize = 4;

/// Words of a help text that are options wherever they stand, examples apart.
pub fn options_of(help: &str) -> Vec<String> {
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

/// Reads a help text.
pub fn read(text: &str) -> Help {
    let mut help = Help::default();
    let mut title = String::new();
    let mut in_option = false;
    for line in text.lines() {
        let bare = line.trim_start();
        let indent = line.len() - bare.len();
        if bare.is_empty() {
            in_option = false;
            if title == "Usage" {
                title.clear();
            }
            help.prose.push('\n');
        } else if let Some(usage) = line.strip_prefix("Usage: ") {
            title = "Usage".into();
            help.usage.push(usage.into());
        } else if title == "Usage" {
            help.usage.push(bare.into());
        } else if let (0, Some(words)) = (indent, title_of(line)) {
            title = words.into();
            in_option = false;
        } else if title == "Examples" {
            help.examples.push(bare.into());
        } else if indent >= 2 && bare.starts_with('-') {
            help.options.push(Opt { group: title.clone(), ..Opt::read(bare) });
            in_option = true;
        } else if in_option && indent >= 6 {
            let about = help.options.last_mut().map(|option| &mut option.about);
            about.into_iter().for_each(|about| about.push_str(&format!(" {bare}")));
        } else {
            help.prose.push_str(&format!("{line}\n"));
        }
    }
    help.options.iter_mut().for_each(|option| option.about = option.about.trim().into());
    help.prose = help.prose.trim().into();
    help
}

fn title_of(line: &str) -> Option<&str> {
    line.strip_suffix(':').filter(|title| title.split(' ').count() <= LONGEST_TITLE_WORDS)
}

impl Opt {
    /// `-a, --pass PASSWORD   description`. Where the left side is long only its value's capitals end it.
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
pub fn parameters(page: &str) -> Vec<Opt> {
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

#[cfg(test)]
pub mod tests {
    use super::*;

    pub const HELP: &str = "Usage: tool [OPTIONS] FILE
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
        assert_eq!(help.usage, ["tool [OPTIONS] FILE", "tool -v | --version"]);
        assert_eq!(
            (help.prose.as_str(), help.examples),
            ("What it is good for.", vec!["tool -x SET".into()])
        );
    }

    #[test]
    fn files_are_named_where_there_is_no_word_for_options() {
        assert!(read("Usage: tool IN OUT [-x]\n").takes_files() && !read(HELP).takes_files());
        assert!(!Help::default().takes_files());
    }

    #[test]
    fn a_sentence_is_no_title() {
        let help = read("Usage: tool\n\nReads what it is given, and writes:\n  --json  JSON\n");
        assert_eq!(
            (help.options[0].group.as_str(), help.prose.as_str()),
            ("", "Reads what it is given, and writes:")
        );
    }

    #[test]
    fn parameters_are_found() {
        let page = "## In effect\n\n| parameter | takes |\n|---|---|\n| `port` | 0 to 65535 | `6379` | TCP port |\n## Kept\n| `x` |";
        let parameters = parameters(page);
        assert_eq!((parameters.len(), parameters[0].names[0].as_str()), (1, "--port"));
        assert_eq!(parameters[0].about, "TCP port");
    }
}
