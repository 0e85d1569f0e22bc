//! Help of the tools that have no options of their own.

/// Prints the help of a tool without options: asked for by `--help`, or after an error; gives the exit code.
pub fn answer_help(arguments: &[String], help: &str) -> i32 {
    match arguments {
        [asked] if asked == "--help" => {
            println!("{help}");
            0
        }
        arguments => {
            eprintln!("Invalid option \"{}\" or option argument missing\n\n{help}", arguments.join(" "));
            1
        }
    }
}
