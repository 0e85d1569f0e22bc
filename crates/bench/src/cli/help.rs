//! Help of the tools that have no options of their own.

use crate::{errln, outln};
/// Prints the help of a tool without options: asked for by `--help`, or after an error; gives the exit code.
pub fn answer_help(arguments: &[String], help: &str) -> i32 {
    match arguments {
        [asked] if asked == "--help" => {
            outln!("{help}");
            0
        }
        arguments => {
            errln!("Invalid option \"{}\" or option argument missing\n\n{help}", arguments.join(" "));
            1
        }
    }
}
