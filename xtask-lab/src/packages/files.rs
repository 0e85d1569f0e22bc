//! `./x packaging`: the files of `packaging/` that nothing compiles, checked by the programs that will read
//! them: the unit by systemd, the rotation by logrotate, the chart by helm, and the rendered configuration by
//! Martlet. Programs that are not installed are left out, with a message.

use martlet_testkit::server::ReservedPort;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use xtask::run::{Outcome, Tally, built, in_root, is_installed, root, text_of};

/// What reads the configuration that the chart renders.
#[derive(clap::Args)]
pub struct Options {
    /// The program.
    #[arg(long, default_value_os_t = in_root("target/debug/martlet"))]
    program: PathBuf,
}

/// The unit may be exposed by so much, in tenths, as `systemd-analyze security` counts.
const MOST_EXPOSED: &str = "--threshold=40";
/// A password that a shell, a configuration file or YAML could misread.
const PASSWORD: &str = r#"a "b\c' $HOME {{ . }} #"#;
/// Values that change the rendered chart.
const VALUES: [&[&str]; 3] = [
    &[],
    &["metrics.enabled=false", "persistence.enabled=false", "config="],
    &[
        "replicas=3",
        "password.secret=passwords",
        "persistence.storageClass=fast",
        "resources.limits.memory=1Gi",
        "podAnnotations.a=b",
        "imagePullSecrets[0].name=mine",
    ],
];
/// A server that does not answer in this time never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// Looks at all of them.
pub fn run(options: &Options) -> Outcome {
    let mut tally = Tally::default();
    if is_there("systemd-analyze", "--version", "the unit") {
        tally.note("the unit", unit());
    }
    if is_there("logrotate", "--version", "the rotation of logs") {
        tally.note("the rotation of logs", rotation());
    }
    if is_there("helm", "version", "the chart") {
        tally.note("the chart", chart(&built(&options.program)?));
    }
    tally.outcome()
}

fn is_there(program: &str, argument: &str, what: &str) -> bool {
    let is_there = is_installed(program, argument);
    if !is_there {
        eprintln!("x: {program} is not installed; {what} is NOT looked at");
    }
    is_there
}

/// A program's text on both outputs; an error if it fails.
fn said(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let output = command.output()?;
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    if output.status.success() { Ok(text) } else { Err(format!("{}: {text}", output.status).into()) }
}

fn unit() -> Outcome {
    let place = tempfile::tempdir()?;
    let path = place.path().join("martlet.service");
    // systemd wants the program to be there.
    let text = text_of(&root().join("packaging/debian/martlet.service"))?;
    std::fs::write(&path, text.replace("/usr/bin/martlet ", "/bin/true "))?;
    let complaints = said(Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path))?;
    if !complaints.is_empty() {
        return Err(complaints.into());
    }
    let security = ["security", "--offline=true", MOST_EXPOSED];
    said(Command::new("systemd-analyze").args(security).arg(&path)).map(drop)
}

fn rotation() -> Outcome {
    let text = said(Command::new("logrotate").arg("--debug").arg(root().join("packaging/debian/logrotate")))?;
    if text.contains("error:") || !text.contains("Handling 1 logs") { Err(text.into()) } else { Ok(()) }
}

fn chart(program: &Path) -> Outcome {
    let chart = root().join("packaging/helm/martlet");
    for values in VALUES {
        let set = values.iter().flat_map(|value| ["--set", value]);
        said(Command::new("helm").args(["lint", "--strict"]).arg(&chart).args(set.clone()))?;
        let rendered = said(Command::new("helm").args(["template", "cache"]).arg(&chart).args(set))?;
        let file = |name: &str| file_of(&rendered, name).ok_or_else(|| format!("there is no {name}"));
        let place = tempfile::tempdir()?;
        let directory = place.path().to_string_lossy();
        let configuration = file("martlet.conf")?.replace("dir /data", &format!("dir {directory}"));
        std::fs::write(place.path().join("martlet.conf"), configuration)?;
        for pod in 0..2 {
            start(program, place.path(), &file("start.sh")?, pod)
                .map_err(|error| format!("pod {pod} with {}: {error}", values.join(" ")))?;
        }
    }
    Ok(())
}

/// The text of one of a ConfigMap's files, as helm renders it.
fn file_of(rendered: &str, name: &str) -> Option<String> {
    let from = rendered.lines().skip_while(|line| *line != format!("  {name}: |")).skip(1);
    let lines: Vec<&str> = from.map_while(|line| line.strip_prefix("    ")).collect();
    (!lines.is_empty()).then(|| lines.join("\n") + "\n")
}

/// Killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a pod's script in a directory instead of the container's, and asks the server as its probe does.
fn start(program: &Path, place: &Path, script: &str, pod: u32) -> Outcome {
    let port = ReservedPort::take()?;
    let number = port.number().to_string();
    let path = place.to_string_lossy();
    let script =
        script.replace("/etc/martlet", &path).replace("/tmp/martlet.conf", &format!("{path}/made.conf"));
    // As the image has it, but elsewhere.
    let bin = place.join(format!("bin{pod}"));
    std::fs::create_dir(&bin)?;
    let other = format!("#!/bin/sh\nexec {} \"$@\" --port {number} --dir {path}\n", program.display());
    super::write_executable(&bin.join("martlet"), &other)?;
    let mut command = Command::new("sh");
    let paths = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    command.args(["-c", &script]).env("PATH", paths).env("HOSTNAME", format!("cache-{pod}"));
    command.env("MARTLET_PEERS", "cache-all").env("MARTLET_PASSWORD", PASSWORD);
    let log = std::fs::File::create(place.join("log"))?;
    let mut server = Running(command.stdout(log.try_clone()?).stderr(log).spawn()?);
    let ask = |password: &str| {
        let mut client = Command::new(program);
        client.args(["cli", "-e", "-p", &number, "INFO", "replication"]);
        said(client.env("REDISCLI_AUTH", password))
    };
    let deadline = Instant::now() + PATIENCE;
    let told = loop {
        match ask(PASSWORD) {
            Ok(told) => break told,
            Err(error) if Instant::now() > deadline || server.0.try_wait()?.is_some() => {
                return Err(format!("{error}\n{}", text_of(&place.join("log"))?).into());
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    };
    if ask("another").is_ok() {
        return Err("it accepts another password".into());
    }
    let role = if pod == 0 { "role:master" } else { "role:slave\r\nmaster_host:cache-0.cache-all" };
    if told.contains(role) { Ok(()) } else { Err(format!("not {role}: {told}").into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str) -> String {
        text_of(&root().join(path)).unwrap()
    }

    /// The text behind `before` in a line of a file.
    fn after(path: &str, before: &str) -> String {
        let text = text(path);
        let found = text.lines().find_map(|line| line.trim().strip_prefix(before));
        found.unwrap_or_else(|| panic!("{path} has no {before}")).trim_matches(['"', ' ']).to_owned()
    }

    #[test]
    fn versions_and_users_are_the_same_everywhere() {
        let chart = "packaging/helm/martlet/Chart.yaml";
        assert_eq!(after(chart, "version:"), env!("CARGO_PKG_VERSION"));
        assert_eq!(after(chart, "appVersion:"), env!("CARGO_PKG_VERSION"));
        let toolchain = after("rust-toolchain.toml", "channel =");
        assert_eq!(after("packaging/Dockerfile", "FROM rust:"), format!("{toolchain}-bookworm AS build"));
        assert_eq!(after("packaging/Dockerfile", "ENV RUSTUP_TOOLCHAIN="), toolchain);
        let user = after("packaging/helm/martlet/templates/statefulset.yaml", "runAsUser:");
        let uid = format!("--uid {user} ");
        assert!(text("packaging/Dockerfile").contains(&uid), "the image has no {uid}");
    }

    #[test]
    fn each_package_has_all_the_names_of_redis_programs() {
        let names = |path: &str| {
            let text = text(path);
            let list = text.split("for name in ").nth(1).and_then(|rest| rest.split(';').next());
            list.unwrap_or_else(|| panic!("{path} has no list")).trim().to_owned()
        };
        let all = names("packaging/Dockerfile");
        assert_eq!(all.split(' ').count(), 6);
        for path in ["packaging/debian/postinst", "packaging/debian/prerm"] {
            assert_eq!(names(path), all, "{path}");
        }
        let page = text("docs/install.md");
        all.split(' ').for_each(|name| assert!(page.contains(&format!("`{name}`")), "{name}"));
    }

    #[test]
    fn a_file_of_a_config_map_is_found() {
        let rendered =
            "data:\n  martlet.conf: |\n    port 1\n    dir /data\n  # A line.\n  start.sh: |\n    set -e\n";
        assert_eq!(file_of(rendered, "martlet.conf").as_deref(), Some("port 1\ndir /data\n"));
        assert_eq!(file_of(rendered, "start.sh").as_deref(), Some("set -e\n"));
        assert_eq!(file_of(rendered, "nothing"), None);
    }
}
