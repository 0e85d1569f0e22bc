//! `./x apps`: applications that run on Redis each do real work on redis-server and on Martlet. A script
//! under tests/apps prints its results, without the parts that differ from run to run; both servers must give
//! the same text. Applications are installed from their languages' registries into `target/apps/`, at exact
//! versions. One that searches needs RediSearch at its peer, which redis-server has only from version 8 on:
//! its output is recorded under tests/apps, from a Redis Stack that `--search-peer` names.

use martlet_testkit::server::Server;
use std::error::Error;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::run::{Outcome, Tally, cargo, is_installed, root, step};

/// How long an application may take on one server; one that hangs is a difference as well.
const LIMIT_SECONDS: &str = "120";

/// Which servers, which applications.
#[derive(clap::Args)]
pub struct Options {
    /// The server to be judged [default: ours, built for debugging].
    #[arg(long)]
    program: Option<PathBuf>,
    /// The server that is right by definition.
    #[arg(long, default_value = "redis-server")]
    peer: PathBuf,
    /// A server with RediSearch: the peer of the applications that search [default: what they printed on one,
    /// as recorded in tests/apps].
    #[arg(long)]
    search_peer: Option<PathBuf>,
    /// Records what the search peer prints.
    #[arg(long, requires = "search_peer")]
    record: bool,
    /// Only these applications.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(APPLICATIONS.iter().map(|a| a.name)))]
    only: Vec<String>,
}

/// An application: its script is tests/apps/NAME with the ending of its language.
struct Application {
    name: &'static str,
    language: Language,
    /// Exact versions of it and of its script's further needs, in the form of the language's installer.
    packages: &'static [&'static str],
    /// Its peer needs RediSearch.
    searches: bool,
}

#[derive(Clone, Copy)]
enum Language {
    Python,
    Node,
    Ruby,
    Java,
}

const fn application(
    name: &'static str,
    language: Language,
    packages: &'static [&'static str],
) -> Application {
    Application { name, language, packages, searches: false }
}

const fn searching(name: &'static str, language: Language, packages: &'static [&'static str]) -> Application {
    Application { name, language, packages, searches: true }
}

const APPLICATIONS: &[Application] = &[
    application("rq", Language::Python, &["rq==3.0.0", "redis==8.1.0"]),
    application(
        "celery",
        Language::Python,
        &["celery==5.7.0", "kombu==5.7.0", "redis==8.1.0", "packaging==25.0"],
    ),
    application("django-redis", Language::Python, &["django-redis==7.0.0", "Django==5.2.19", "redis==8.1.0"]),
    application(
        "redis-locks",
        Language::Python,
        &["redis==8.1.0", "python-redis-lock==4.0.1", "redlock-py==1.0.8"],
    ),
    application("bullmq", Language::Node, &["bullmq@6.7.0", "ioredis@6.0.0"]),
    application("redlock", Language::Node, &["redlock@4.2.0", "ioredis@6.0.0"]),
    application(
        "rate-limiter-flexible",
        Language::Node,
        &["rate-limiter-flexible@11.4.0", "ioredis@6.0.0", "redis@6.3.1"],
    ),
    application("sidekiq", Language::Ruby, &["sidekiq:6.4.1", "redis:4.8.0"]),
    application("redisson", Language::Java, &["org.redisson:redisson:3.40.2"]),
    searching("redisvl", Language::Python, &["redisvl==0.28.0", "redis==7.1.0", "numpy==2.4.6"]),
    searching(
        "redis-om",
        Language::Python,
        &["redis-om==1.2.0", "redisvl==0.28.0", "redis==8.1.0", "numpy==2.4.6"],
    ),
    searching("redis-om-node", Language::Node, &["redis-om@0.4.7", "redis@4.7.1"]),
    // Its asynchronous store does not run with later versions of RedisVL.
    searching(
        "langgraph-redis",
        Language::Python,
        &[
            "langgraph-checkpoint-redis==0.5.2",
            "langgraph==1.2.24",
            "langchain-core==1.8.3",
            "redisvl==0.17.0",
            "redis==7.1.0",
            "numpy==2.4.6",
        ],
    ),
    searching(
        "langchain-redis",
        Language::Python,
        &[
            "langchain-redis==0.2.6",
            "langchain-core==1.8.3",
            "redisvl==0.28.0",
            "redis==7.1.0",
            "numpy==2.4.6",
        ],
    ),
];

/// Runs every application on both servers and compares; one that fails does not keep the others from running.
pub fn run(options: &Options) -> Outcome {
    let program = match &options.program {
        Some(program) => xtask::run::built(program)?,
        None => {
            cargo(&["build", "-p", "martlet"])?;
            root().join("target/debug/martlet")
        }
    };
    let mut tally = Tally::default();
    for application in APPLICATIONS {
        if !options.only.is_empty() && !options.only.iter().any(|name| name == application.name) {
            continue;
        }
        let Some(folder) = application.install()? else { continue };
        tally.note(application.name, application.compare(&folder, &program, options));
    }
    tally.outcome()
}

impl Application {
    /// A folder with the application and its script; none where the language or its registry is out of reach.
    fn install(&self) -> Result<Option<PathBuf>, Box<dyn Error>> {
        let tool = self.language.installer();
        if !is_installed(tool, "--version") {
            eprintln!("x: {tool} is NOT installed; {} is left out", self.name);
            return Ok(None);
        }
        let folder = root().join("target/apps").join(self.name);
        std::fs::create_dir_all(&folder)?;
        if let Err(error) = self.language.install(&folder, self.packages) {
            eprintln!("x: {} is left out, for it can NOT be installed: {error}", self.name);
            return Ok(None);
        }
        std::fs::copy(self.source(), folder.join(self.language.script()))?;
        Ok(Some(folder))
    }

    fn source(&self) -> PathBuf {
        let ending = Path::new(self.language.script()).extension().unwrap_or_default();
        root().join("tests/apps").join(self.name).with_extension(ending)
    }

    /// What an application that searches printed at its peer.
    fn record(&self) -> PathBuf {
        root().join("tests/apps").join(self.name).with_extension("expected")
    }

    fn compare(&self, folder: &Path, program: &Path, options: &Options) -> Outcome {
        let expected = self.expected(folder, options)?;
        let ours = self.transcript(folder, &Server::start(program, &["server"])?)?;
        match first_difference(&expected, &ours) {
            None => Ok(()),
            Some(difference) => Err(difference.into()),
        }
    }

    /// What is right to print.
    fn expected(&self, folder: &Path, options: &Options) -> Result<String, Box<dyn Error>> {
        let peer = match (&options.search_peer, self.searches) {
            (_, false) => &options.peer,
            (Some(peer), true) => peer,
            (None, true) => return xtask::run::text_of(&self.record()),
        };
        let no_arguments: &[&str] = &[];
        let expected = self.transcript(folder, &Server::start(peer, no_arguments)?)?;
        if options.record && self.searches {
            std::fs::write(self.record(), &expected)?;
        }
        Ok(expected)
    }

    /// The script's output when it runs on a server.
    fn transcript(&self, folder: &Path, server: &Server) -> Result<String, Box<dyn Error>> {
        let output = Command::new("timeout")
            .arg(LIMIT_SECONDS)
            .arg(self.language.interpreter(folder))
            .args(self.language.start())
            .current_dir(folder)
            .env("GEM_HOME", folder.join("gems"))
            .env("REDIS_PORT", server.address().port().to_string())
            .output()?;
        let text = String::from_utf8(output.stdout)?;
        if output.status.success() && !text.is_empty() {
            return Ok(text);
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        Err(format!("{}\n{text}{complaint}{}", output.status, server.log()).into())
    }
}

impl Language {
    /// Arguments that make the interpreter run the script. Python's is a module that has a `main`: workers
    /// import their functions by the module's name, and `__main__` has none.
    fn start(self) -> &'static [&'static str] {
        match self {
            Language::Python => &["-c", "import work; work.main()"],
            Language::Node => &["work.mjs"],
            Language::Ruby => &["-W0", "work.rb"],
            Language::Java => &["@arguments", "Work.java"],
        }
    }

    /// The script's name where it runs: not its application's, which it imports by that name.
    fn script(self) -> &'static str {
        match self {
            Language::Python => "work.py",
            Language::Node => "work.mjs",
            Language::Ruby => "work.rb",
            Language::Java => "Work.java",
        }
    }

    fn installer(self) -> &'static str {
        match self {
            Language::Python => "python3",
            Language::Node => "npm",
            Language::Ruby => "gem",
            Language::Java => "mvn",
        }
    }

    fn interpreter(self, folder: &Path) -> PathBuf {
        match self {
            Language::Python => folder.join("environment/bin/python"),
            Language::Node => "node".into(),
            Language::Ruby => "ruby".into(),
            Language::Java => "java".into(),
        }
    }

    /// Installs packages into a folder; a package at its version stays.
    fn install(self, folder: &Path, packages: &[&str]) -> Outcome {
        match self {
            Language::Python => {
                let python = self.interpreter(folder);
                if !python.exists() {
                    step(Command::new("python3").args(["-m", "venv"]).arg(folder.join("environment")))?;
                }
                step(Command::new(python).args(["-m", "pip", "install", "-q"]).args(packages))
            }
            Language::Node => {
                std::fs::write(folder.join("package.json"), r#"{ "private": true }"#)?;
                let quietly = ["install", "--silent", "--no-audit", "--no-fund", "--prefer-offline"];
                step(Command::new("npm").args(quietly).args(packages).current_dir(folder))
            }
            Language::Ruby => {
                let what_is_missing = ["install", "--silent", "--conservative", "--no-document"];
                let mut gem = Command::new("gem");
                step(gem.args(what_is_missing).args(packages).env("GEM_HOME", folder.join("gems")))
            }
            Language::Java => {
                std::fs::write(folder.join("pom.xml"), pom(packages))?;
                let goal = ["-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath"];
                step(Command::new("mvn").args(goal).current_dir(folder))?;
                let classpath = xtask::run::text_of(&folder.join("classpath"))?;
                Ok(std::fs::write(folder.join("arguments"), format!("-cp\n{classpath}\n"))?)
            }
        }
    }
}

/// A Maven project that is only its dependencies, each GROUP:ARTIFACT:VERSION.
fn pom(packages: &[&str]) -> String {
    let dependency = |package: &&str| {
        let tags = ["groupId", "artifactId", "version"].into_iter().zip(package.split(':'));
        let parts: String = tags.map(|(tag, part)| format!("<{tag}>{part}</{tag}>")).collect();
        format!("<dependency>{parts}</dependency>")
    };
    let dependencies: String = packages.iter().map(dependency).collect();
    format!(
        "<project><modelVersion>4.0.0</modelVersion><groupId>martlet</groupId><artifactId>application</artifactId>\
         <version>1</version><dependencies>{dependencies}</dependencies></project>"
    )
}

/// The first line in which two transcripts differ, and the line before it.
fn first_difference(expected: &str, ours: &str) -> Option<String> {
    let (mut expected, mut ours) = (expected.lines(), ours.lines());
    let mut before = "the beginning";
    loop {
        let (right, got) = (expected.next(), ours.next());
        if right != got {
            let mut told = format!("after {before}:");
            for (who, line) in [("the peer", right), ("ours", got)] {
                let _ = write!(told, "\n  {who}: {}", line.unwrap_or("(ends here)"));
            }
            return Some(told);
        }
        before = right?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_application_has_its_files_and_exact_versions() {
        for application in APPLICATIONS {
            assert!(application.source().exists(), "{}", application.name);
            assert_eq!(application.record().exists(), application.searches, "{}", application.name);
            for package in application.packages {
                let version = package.rsplit(['=', '@', ':']).next().unwrap_or_default();
                assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{package}");
            }
        }
    }

    #[test]
    fn maven_learns_each_dependency() {
        let project = pom(&["a.b:c:1.0"]);
        let dependency = "<groupId>a.b</groupId><artifactId>c</artifactId><version>1.0</version>";
        assert!(
            project.contains(&format!("<dependencies><dependency>{dependency}</dependency>")),
            "{project}"
        );
    }

    #[test]
    fn transcripts_differ_from_the_first_line_that_does() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        let told = first_difference("a\nb\n", "a\nc\n").expect("they differ");
        assert_eq!(told, "after a:\n  the peer: b\n  ours: c");
        let told = first_difference("a\nb\n", "a\n").expect("one ends early");
        assert!(told.ends_with("ours: (ends here)"), "{told}");
        assert!(first_difference("", "a\n").expect("one begins").contains("the beginning"));
    }
}
