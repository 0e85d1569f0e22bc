//! Completions for shells, and each installed shell's own suggestions from them.

use crate::run::is_installed;
use clap::{Arg, ArgAction, Command, ValueHint};
use clap_complete::{Shell, generate};
use std::error::Error;
use std::path::Path;
use std::process::Command as Process;

/// A line to complete, with words that a shell must suggest, and words that it must not.
struct Case {
    line: &'static str,
    offered: &'static [&'static str],
    not_offered: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        line: "martlet ",
        offered: &["server", "bench", "cli", "sentinel", "metrics", "check-aof", "check-rdb", "convert"],
        not_offered: &["--port"],
    },
    Case { line: "martlet se", offered: &["server", "sentinel"], not_offered: &["cli"] },
    Case {
        line: "martlet cli --quoted",
        offered: &["--quoted-json", "--quoted-input"],
        not_offered: &["--rdb"],
    },
    Case {
        line: "martlet server --appendf",
        offered: &["--appendfsync", "--appendfilename"],
        not_offered: &["--appendonly"],
    },
    Case { line: "martlet convert --rdb", offered: &["--rdb-version"], not_offered: &["--json-lines"] },
    Case { line: "martlet server dump", offered: &["dumped.conf"], not_offered: &["--port"] },
    Case { line: "martlet cli --cacert dump", offered: &["dumped.conf"], not_offered: &["--port"] },
    Case { line: "martlet check-rdb dump", offered: &["dumped.conf"], not_offered: &["--fix"] },
];

/// The shells, and the names that their packages give the file.
pub const SHELLS: &[(Shell, &str)] =
    &[(Shell::Bash, "martlet.bash"), (Shell::Zsh, "_martlet"), (Shell::Fish, "martlet.fish")];

/// Writes the completions of `command`, whose subcommands are the tools.
///
/// # Errors
/// Those of writing files.
pub fn write(command: &Command, directory: &Path) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(directory)?;
    for (shell, file) in SHELLS {
        let mut text = Vec::new();
        generate(*shell, &mut command.clone(), "martlet", &mut text);
        let mut text = String::from_utf8(text)?;
        if *shell == Shell::Zsh {
            text = apart(&text);
        }
        std::fs::write(directory.join(file), text)?;
    }
    Ok(())
}

/// Zsh's specifications for values in words of their own: `--port=6379` is no option of redis-server.
fn apart(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines() {
        let is_option = line.starts_with("'-") || line.starts_with("'*-");
        lines.push(if is_option { line.replacen("=[", "[", 1).replacen("+[", "[", 1) } else { line.into() });
    }
    lines.join("\n") + "\n"
}

/// The files that a tool's last words name.
pub fn files() -> Arg {
    Arg::new("FILES").action(ArgAction::Append).value_hint(ValueHint::FilePath)
}

/// Differences between the suggestions of the installed shells and the expected ones.
///
/// # Errors
/// A shell cannot be started.
pub fn complaints(directory: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let place = tempfile::tempdir()?;
    std::fs::write(place.path().join("dumped.conf"), "")?;
    let mut found = Vec::new();
    for (shell, file) in SHELLS {
        let name = shell.to_string();
        if !is_installed(&name, "--version") {
            println!("{name} is not installed: its completions were not tried");
            continue;
        }
        let file = std::path::absolute(directory.join(file))?;
        for case in CASES {
            let offered = completed(*shell, &file, case.line, place.path())?;
            let missing = case.offered.iter().filter(|word| !offered.iter().any(|is| is == *word));
            found.extend(
                missing.map(|word| format!("{name}: '{}' does not offer {word}: {offered:?}", case.line)),
            );
            let wrong = case.not_offered.iter().filter(|word| offered.iter().any(|is| is == *word));
            found.extend(wrong.map(|word| format!("{name}: '{}' offers {word}", case.line)));
        }
    }
    Ok(found)
}

/// A shell's suggestions at the end of `line`, in the directory `place`.
fn completed(shell: Shell, file: &Path, line: &str, place: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let script = match shell {
        Shell::Bash => BASH,
        Shell::Zsh => ZSH,
        _ => FISH,
    };
    let options: &[&str] = match shell {
        Shell::Bash => &["bash", "--norc", "-c", script, "bash"],
        Shell::Zsh => &["zsh", "-f", "-c", script, "zsh"],
        _ => &["fish", "--no-config", "-c", script],
    };
    let mut command = Process::new("timeout");
    command
        .arg("30")
        .args(options)
        .arg(file)
        .arg(line)
        .current_dir(place)
        .env("HOME", place)
        .env("TERM", "xterm");
    let output = command.stdin(std::process::Stdio::null()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{shell}: '{line}': {}: {said}{text}", output.status).into());
    }
    Ok(text.lines().map(|word| word.trim().trim_start_matches("./").into()).collect())
}

/// The function that `complete` names is called as readline would. Other words are left to files, as `-o
/// default` says.
const BASH: &str = r#"
source "$1"
registered=$(complete -p martlet) || exit 1
[[ $registered == *"-o default"* ]] || exit 1
read -ra COMP_WORDS <<< "$2"
[[ $2 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$2 COMP_POINT=${#2}
function=${registered##*-F } function=${function%% *}
$function martlet "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}" 2>/dev/null
[[ ${#COMPREPLY[@]} == 0 ]] && COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// Matches with a tab and their descriptions.
const FISH: &str = r#"
source $argv[1]
complete -C $argv[2] | string split --fields 1 \t
exit 0
"#;

/// A shell on a separate terminal, whose completion prints its suggestions and ends the shell.
const ZSH: &str = r#"
zmodload zsh/zpty || exit 1
zpty shell zsh -f -i
zpty -w shell "PROMPT= ; fpath=(${1:h} \$fpath); autoload -U compinit; compinit -u -D"
zpty -w shell 'compadd() {
    builtin compadd "$@"; local code=$?
    [[ -n ${(M)@:#-*[OAD]} ]] && return $code
    local -a matched
    builtin compadd -O matched "$@"
    (( $#matched )) && print -rl -- "" MATCH:$^matched
    return $code
}
finish() { print -rl -- "" FINISHED; exit }
comppostfuncs=(finish)
zstyle ":completion:*" list-grouped false
bindkey "^I" complete-word
print READY-$((40 + 2))'
zpty -r shell text '*READY-42*' || exit 1
zpty -n -w shell "$2"$'\t'
zpty -r shell text '*FINISHED*' || exit 1
for word in ${(f)text}; do
    [[ $word == MATCH:* ]] && print -r -- ${${word#MATCH:}%$'\r'}
done
exit 0
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_words_of_their_own() {
        let text = "'--port=[TCP; a=[b]]:PORT:' \\\n'-p+[port]:PORT:' \\\n'*--rdb=[x]' \\\n--x=[\n";
        assert_eq!(
            apart(text),
            "'--port[TCP; a=[b]]:PORT:' \\\n'-p[port]:PORT:' \\\n'*--rdb[x]' \\\n--x=[\n"
        );
    }

    #[test]
    fn a_shell_that_offers_something_else_is_told() {
        let place = tempfile::tempdir().expect("temporary");
        let tool = Command::new("cli").arg(Arg::new("rdb").long("rdb").action(ArgAction::SetTrue));
        write(&Command::new("martlet").subcommand(tool), place.path()).expect("written");
        for (shell, file) in SHELLS {
            if !is_installed(&shell.to_string(), "--version") {
                continue;
            }
            let file = place.path().join(file);
            let offered = completed(*shell, &file, "martlet cli --r", place.path()).expect("asked");
            assert_eq!(offered, ["--rdb"], "{shell}");
        }
        let found = complaints(place.path()).expect("asked");
        for (shell, _) in SHELLS {
            let name = shell.to_string();
            let is_told =
                found.iter().any(|line| line.starts_with(&format!("{name}: 'martlet se' does not")));
            assert_eq!(is_told, is_installed(&name, "--version"), "{name}: {found:?}");
        }
    }
}
