//! How many scripts run without Lua: `cargo run -p martlet-script --example translated DIR`.
//! DIR has a folder for each package, and in it a file for each script.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use martlet_script::{Engine, Interpreter, Version};

/// The scripts of one package.
#[derive(Default)]
struct Package {
    scripts: usize,
    translated: usize,
    /// Scripts by the reason why they are not.
    others: BTreeMap<String, usize>,
}

fn package(interpreter: &mut Interpreter, folder: &Path) -> std::io::Result<Package> {
    let mut package = Package::default();
    for entry in std::fs::read_dir(folder)? {
        let source = std::fs::read(entry?.path())?;
        package.scripts += 1;
        let reason = match interpreter.compile(&source) {
            Err(_) => Some("does not compile".to_owned()),
            Ok(script) => interpreter.unsupported(&script).map(|reason| reason.to_string()),
        };
        match reason {
            None => package.translated += 1,
            Some(reason) => *package.others.entry(reason).or_default() += 1,
        }
    }
    Ok(package)
}

fn print(folder: &Path) -> std::io::Result<()> {
    let version = Version { text: "7.4.0", number: 0x0007_0400 };
    let mut interpreter = Interpreter::new(Engine::Eval, version, 64 << 20);
    let mut folders: Vec<_> = std::fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    folders.sort_by_key(std::fs::DirEntry::file_name);
    let (mut scripts, mut translated) = (0, 0);
    println!("{:24} {:>8} {:>12}  others", "package", "scripts", "without Lua");
    for entry in folders.iter().filter(|entry| entry.path().is_dir()) {
        let package = package(&mut interpreter, &entry.path())?;
        let reason = |(reason, count): (&String, &usize)| format!("{reason}: {count}");
        let others: Vec<String> = package.others.iter().map(reason).collect();
        let name = entry.file_name().to_string_lossy().into_owned();
        println!("{name:24} {:8} {:12}  {}", package.scripts, package.translated, others.join(", "));
        scripts += package.scripts;
        translated += package.translated;
    }
    println!("{:24} {scripts:8} {translated:12}  {} %", "all", translated * 100 / scripts.max(1));
    Ok(())
}

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("the folder with the packages' scripts is missing");
        return ExitCode::FAILURE;
    };
    match print(Path::new(&folder)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{folder}: {error}");
            ExitCode::FAILURE
        }
    }
}
