//! Definitions that travel between catalogues.

use std::sync::Arc;

use martlet_base::random::Random;
use martlet_engine::{Engine, Follower as _};

use super::*;

const MEMORY: u64 = 1 << 30;

fn catalogue() -> Catalogue {
    let engine: &'static Engine = Box::leak(Box::new(Engine::new(1).unwrap()));
    Catalogue::new(engine, 1)
}

fn words(text: &str) -> Vec<&[u8]> {
    text.split(' ').map(str::as_bytes).collect()
}

/// OK, 0 if nothing was to do, or the error.
fn run(catalogue: &Catalogue, command: &str) -> String {
    match catalogue.change(&words(command), MEMORY) {
        Ok(Changed::No) => "0".into(),
        Ok(_) => "OK".into(),
        Err(error) => error.to_string(),
    }
}

fn push_all(from: &Catalogue, to: &Catalogue) -> bool {
    let (version, commands) = from.definitions();
    let version = version.to_string();
    let joined = join(&commands);
    let mut words = vec![DEFINE, version.as_bytes(), b"ALL"];
    words.extend(joined.iter().map(|word| &**word));
    matches!(to.change(&words, MEMORY), Ok(Changed::Yes))
}

#[test]
fn a_change_is_made_once_and_of_its_base() {
    let catalogue = catalogue();
    for (command, wanted) in [
        ("_FT.DEFINE 1 ONE 0 FT.CREATE i SCHEMA t TEXT", "OK"),
        ("_FT.DEFINE 1 ONE 0 FT.CREATE i SCHEMA t TEXT", "0"),
        ("_FT.DEFINE 3 ONE 2 FT.CREATE j SCHEMA t TEXT", OTHER_BASE),
        ("_FT.DEFINE 2 ONE 1 FT.CREATE i SCHEMA t TEXT", "Index already exists"),
        ("_FT.DEFINE 2 ONE 1 FT._CREATEIFNX i SCHEMA t TEXT", "0"),
        ("_FT.DEFINE 2 ONE 1 _FT.DEFINE 2 SET", "unknown command"),
        ("_FT.DEFINE 2 ALL 9 FT.CREATE", "syntax error"),
        ("_FT.DEFINE x SET", "syntax error"),
        ("_FT.DEFINE", "syntax error"),
        ("_FT.DEFINE 2 ONE 1 FT.ALIASADD a i", "OK"),
        ("_FT.DEFINE 7 SET", "OK"),
    ] {
        assert_eq!(run(&catalogue, command), wanted, "{command}");
    }
    assert_eq!(catalogue.version(), 7);
    // Its files say all of that.
    let again = self::catalogue();
    let commands = catalogue.commands_with_version();
    let commands: Vec<Vec<&[u8]>> =
        commands.iter().map(|command| command.iter().map(|word| &**word).collect()).collect();
    assert!(again.replace(&commands, MEMORY).is_empty());
    assert_eq!(again.digest(), catalogue.digest());
    assert!(again.replace(&[], MEMORY).is_empty());
    assert_eq!(again.digest(), self::catalogue().digest());
}

#[test]
fn deleted_keys_leave_no_version() {
    let (leader, other) = (catalogue(), catalogue());
    assert_eq!(run(&leader, "_FT.DEFINE 4 ONE 0 FT.CREATE i SCHEMA t TEXT"), "OK");
    assert!(push_all(&leader, &other));
    other.emptied(None);
    assert_eq!((other.version(), other.is_flushed(), other.next_version()), (0, true, 5));
    assert!(push_all(&leader, &other));
    assert_eq!((other.digest(), other.is_flushed()), (leader.digest(), false));
}

#[test]
fn any_definitions_become_those_of_another() {
    let seed = Random::from_entropy().next_u64();
    let mut random = Random::seeded(seed);
    for _ in 0..100 {
        let catalogues = [catalogue(), catalogue()];
        for _ in 0..random.below(30) {
            let name = ["a", "b", "c", "d"][random.below(4) as usize];
            let alias = ["x", "y"][random.below(2) as usize];
            let term = random.below(4);
            let command = match random.below(9) {
                0 | 1 => format!("FT.CREATE {name} SCHEMA t{} TEXT", random.below(2)),
                2 => format!("FT.ALTER {name} SCHEMA ADD n NUMERIC"),
                3 => format!("FT.ALIASUPDATE {alias} {name}"),
                4 => format!("FT.ALIASDEL {alias}"),
                5 => format!("FT.SYNUPDATE {name} g{} t{term} u{term}", random.below(2)),
                6 => format!("FT.DICTADD {alias} t{term}"),
                7 => format!("FT.DICTDEL {alias} t{term}"),
                _ => format!("FT.DROPINDEX {name}"),
            };
            run(&catalogues[random.below(2) as usize], &command);
        }
        let [from, to] = &catalogues;
        let before = to.indexes();
        assert_eq!(run(from, "_FT.DEFINE 9 SET"), "OK");
        assert!(push_all(from, to), "seed {seed}");
        assert_eq!(from.commands(), to.commands(), "seed {seed}");
        assert_eq!(from.digest(), to.digest(), "seed {seed}");
        // Equal indexes stay: they are not scanned again.
        let own =
            |index: &Arc<crate::KeyIndex>| to.find(index.name()).is_some_and(|now| Arc::ptr_eq(&now, index));
        let stayed = before.iter().filter(|index| own(index)).count();
        assert!(!push_all(from, to), "once is enough, seed {seed}");
        assert_eq!(before.iter().filter(|index| own(index)).count(), stayed);
    }
}
