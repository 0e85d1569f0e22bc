//! A file of users that anybody may have written: it is refused, or its users can be written and read again.

use martlet_acl::{Listed, Rules, Table, Users};

/// The input is the file's text.
pub fn check(data: &[u8]) {
    let commands = martlet_command::FAMILIES.iter().flat_map(|family| family.iter());
    let table =
        Table::new(commands.map(|command| Listed { spec: &command.spec, parent: None, is_hidden: false }));
    let rules = Rules { table: &table, all_channels: false };
    let Ok(users) = Users::from_text(data, "f", &rules) else { return };
    let text = users.to_text();
    let again = Users::from_text(&text, "f", &rules)
        .unwrap_or_else(|why| panic!("{}\n{}", text.escape_ascii(), why.escape_ascii()));
    for (user, same) in users.iter().zip(again.iter()) {
        assert_eq!(user, same, "{}", text.escape_ascii());
    }
}
