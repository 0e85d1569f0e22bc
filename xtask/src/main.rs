//! Chores behind `./x`.

fn main() {}
