//! A tool's manual page, and whether readers of manual pages have a complaint about it.

use super::help::Help;
use crate::run::is_installed;
use clap::Command;
use clap_mangen::Man;
use std::error::Error;
use std::path::Path;
use std::process::Command as Process;

/// The page of a command; `see_also` names other pages.
///
/// # Errors
/// Those of writing into memory.
pub fn page(command: Command, help: &Help, see_also: &[String]) -> Result<String, Box<dyn Error>> {
    let name = command.get_name().to_string();
    let man = Man::new(command.clone());
    let mut text = format!(
        ".ie \\n(.g .ds Aq \\(aq\n.el .ds Aq '\n.TH \"{}\" \"1\" \"\" \"Martlet {}\" \"Martlet\"\n",
        name.to_uppercase().replace('-', "\\-"),
        env!("CARGO_PKG_VERSION")
    );
    let mut part = Vec::new();
    man.render_name_section(&mut part)?;
    text.push_str(&sections(&std::mem::take(&mut part)));
    as_it_stands(&mut text, "SYNOPSIS", &help.usage);
    paragraphs(&mut text, "DESCRIPTION", &help.prose);
    if command.has_subcommands() {
        man.render_subcommands_section(&mut part)?;
        text.push_str(&sections(&std::mem::take(&mut part)).replace(".SH SUBCOMMANDS", ".SH TOOLS"));
    }
    if command.get_arguments().next().is_some() {
        man.render_options_section(&mut part)?;
        text.push_str(&sections(&part));
    }
    as_it_stands(&mut text, "EXAMPLES", &help.examples);
    let others: Vec<String> = see_also.iter().map(|page| format!("{page}(1)")).collect();
    paragraphs(&mut text, "SEE ALSO", &others.join(", "));
    Ok(ascii(&text))
}

/// The part of a page after the definitions that each part begins with.
fn sections(part: &[u8]) -> String {
    let text = String::from_utf8_lossy(part);
    text.find(".SH").map_or(String::new(), |start| text[start..].into())
}

/// A section of lines; none without lines.
fn as_it_stands(page: &mut String, title: &str, lines: &[String]) {
    if !lines.is_empty() {
        let lines: Vec<String> = lines.iter().map(|line| escaped(line)).collect();
        page.push_str(&format!(".SH \"{title}\"\n.nf\n{}\n.fi\n", lines.join("\n")));
    }
}

/// A section of paragraphs, which blank lines separate; none without text.
fn paragraphs(page: &mut String, title: &str, text: &str) {
    if !text.is_empty() {
        let lines =
            text.lines().map(|line| if line.is_empty() { ".PP".into() } else { escaped(line.trim()) });
        page.push_str(&format!(".SH \"{title}\"\n{}\n", lines.collect::<Vec<String>>().join("\n")));
    }
}

/// A line of text whose characters mean nothing to a formatter.
fn escaped(line: &str) -> String {
    let plain = line.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\*(Aq");
    if plain.starts_with('.') { format!("\\&{plain}") } else { plain }
}

/// The page with other characters by their numbers, so that it reads the same under any locale.
fn ascii(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    for character in page.chars() {
        match character {
            _ if character.is_ascii() => text.push(character),
            _ => text.push_str(&format!("\\[u{:04X}]", u32::from(character))),
        }
    }
    text
}

/// What man and its index say against a page; nothing where they are not installed.
///
/// # Errors
/// Where a program that is there cannot be started.
pub fn complaints(path: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut found = Vec::new();
    if is_installed("man", "--version") {
        let mut man = Process::new("man");
        man.env("MANWIDTH", "80").args(["--warnings=w", "--encoding=UTF-8", "--local-file"]).arg(path);
        let output = man.output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        found.extend(said.lines().map(|line| format!("man: {line}")));
        if !output.status.success() || output.stdout.is_empty() {
            found.push(format!("man: {}, and {} bytes of text", output.status, output.stdout.len()));
        }
    }
    if is_installed("lexgrog", "--version") {
        let output = Process::new("lexgrog").arg(path).output()?;
        if !output.status.success() {
            found.push(format!("lexgrog: {}", String::from_utf8_lossy(&output.stdout).trim()));
        }
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(found.into_iter().map(|line| format!("{name}: {line}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stand_as_they_are() {
        let mut page = String::new();
        as_it_stands(&mut page, "EXAMPLES", &[".x \\ -y 'z' …".into(), String::new()]);
        as_it_stands(&mut page, "EMPTY", &[]);
        paragraphs(&mut page, "MORE", "  one\n\n.two");
        paragraphs(&mut page, "EMPTY", "");
        let expected = ".SH \"EXAMPLES\"\n.nf\n\\&.x \\e \\-y \\*(Aqz\\*(Aq \\[u2026]\n\n.fi\n\
            .SH \"MORE\"\none\n.PP\n\\&.two\n";
        assert_eq!(ascii(&page), expected);
    }

    #[test]
    fn a_page_that_is_none_is_complained_of() {
        if !is_installed("man", "--version") {
            return;
        }
        let file = tempfile::NamedTempFile::new().expect("temporary");
        std::fs::write(file.path(), ".TH x 1\n.SH NAME\nx \\- y\n.SH B\n.NOMACRO\nz\n").expect("written");
        let found = complaints(file.path()).expect("asked");
        assert!(found.iter().any(|line| line.contains("NOMACRO")), "{found:?}");
    }
}
