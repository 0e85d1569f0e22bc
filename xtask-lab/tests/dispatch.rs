//! The program starts, and knows the chores that `./x help` lists. `./x ci` runs the build that this test
//! makes.

use std::process::Command;

#[test]
fn every_listed_chore_has_a_help_text() {
    for (name, _) in xtask::lab::CHORES {
        let output =
            Command::new(env!("CARGO_BIN_EXE_xtask-lab")).args([name, "--help"]).output().expect(name);
        assert!(output.status.success(), "{name}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(&format!("x {name}")), "{name}: {output:?}");
    }
}
