//! Commands, and the catalogue that their list makes again.

use martlet_engine::Engine;

use super::*;

const MEMORY: u64 = 1 << 30;

fn catalogue() -> Catalogue {
    let engine: &'static Engine = Box::leak(Box::new(Engine::new(1).unwrap()));
    Catalogue::new(engine, 1)
}

/// Runs a command: OK, 0 if nothing was to do, or the error.
fn run(catalogue: &Catalogue, command: &str) -> String {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    match catalogue.change(&words, MEMORY) {
        Ok(Changed::Yes) => "OK".into(),
        Ok(Changed::No) => "0".into(),
        Ok(Changed::Terms(count)) => format!("{count} terms"),
        Ok(Changed::Dropped(index)) => format!("dropped {}", String::from_utf8_lossy(index.name())),
        Err(error) => error.to_string(),
    }
}

fn commands(catalogue: &Catalogue) -> Vec<String> {
    let text = |command: Command| String::from_utf8(command.join(&b' ')).unwrap();
    catalogue.commands().into_iter().map(text).collect()
}

#[test]
fn commands_change_the_catalogue() {
    let catalogue = catalogue();
    for (command, wanted) in [
        ("FT.CREATE i SCHEMA t TEXT", "OK"),
        ("ft.create i SCHEMA t TEXT", "Index already exists"),
        ("FT._CREATEIFNX i SCHEMA t TEXT", "0"),
        ("FT._CREATEIFNX j ON JSON SCHEMA $.t AS t TEXT", "OK"),
        ("FT.CREATE k SCHEMA t NOTYPE", "Invalid field type for field `t`"),
        ("FT.ALTER i SCHEMA ADD n NUMERIC", "OK"),
        ("FT.ALTER i SCHEMA ADD n NUMERIC", "Duplicate field in schema - n"),
        ("FT.ALIASADD a i", "OK"),
        ("FT.ALIASADD a i", "Alias already exists"),
        ("FT._ALIASADDIFNX a i", "0"),
        ("FT._ALIASADDIFNX b i", "OK"),
        ("FT.ALIASUPDATE b j", "OK"),
        ("FT._ALIASDELIFX nope", "0"),
        ("FT.ALIASDEL nope", "Alias does not exist"),
        ("FT.ALIASDEL b", "OK"),
        ("FT._DROPINDEXIFX nope", "0"),
        ("FT.DROPINDEX nope", "Unknown Index name"),
        ("FT.SYNUPDATE nope g x", "Unknown index name"),
        ("FT.SYNUPDATE a g", "wrong number of arguments for 'FT.SYNUPDATE' command"),
        ("FT.SYNUPDATE a g x", "OK"),
        ("FT.DICTADD d x y x", "2 terms"),
        ("FT.DICTDEL d x z", "1 terms"),
        ("FT.DROPINDEX a", "dropped i"),
        ("FT._DROPINDEXIFX j", "dropped j"),
        ("FT.NOPE", "unknown command"),
    ] {
        assert_eq!(run(&catalogue, command), wanted, "{command}");
    }
    assert_eq!(commands(&catalogue), ["FT.DICTADD d y"]);
    catalogue.clear();
    assert!(commands(&catalogue).is_empty());
}

#[test]
fn the_list_of_commands_makes_the_same_catalogue() {
    let before = catalogue();
    for command in [
        "FT.CREATE i PREFIX 2 a: b: FILTER @n>1 LANGUAGE french SCORE 0.5 NOHL SCHEMA t TEXT WEIGHT 2 SORTABLE \
         g TAG SEPARATOR ; CASESENSITIVE n NUMERIC",
        "FT.ALTER i SCHEMA ADD v VECTOR HNSW 8 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2 M 8",
        "FT.CREATE j ON JSON SKIPINITIALSCAN STOPWORDS 1 the SCHEMA $.a[*] AS a TAG INDEXMISSING $.t AS t TEXT NOSTEM",
        "FT.ALIASADD x i",
        "FT.ALIASADD y j",
        "FT.SYNUPDATE x g SKIPINITIALSCAN b a skipinitialscan",
        "FT.SYNUPDATE i h b c",
        "FT.SYNUPDATE i g c",
    ] {
        assert_eq!(run(&before, command), "OK", "{command}");
    }
    let many: String = (0..2 * PART).map(|number| format!(" {number}")).collect();
    assert_eq!(run(&before, &format!("FT.DICTADD many{many}")), format!("{} terms", 2 * PART));
    assert_eq!(run(&before, "FT.DICTADD none x"), "1 terms");
    assert_eq!(run(&before, "FT.DICTDEL none x"), "1 terms");
    let list = before.commands();
    let words: Vec<Vec<&[u8]>> =
        list.iter().map(|command| command.iter().map(|word| &**word).collect()).collect();
    let after = catalogue();
    assert_eq!(run(&after, "FT.CREATE gone SCHEMA t TEXT"), "OK");
    assert_eq!(run(&after, "FT.DICTADD gone x"), "1 terms");
    assert_eq!(after.replace(&words, MEMORY), []);
    assert_eq!(commands(&after), commands(&before));
    let names: Vec<_> = after.indexes().iter().map(|index| index.name().to_vec()).collect();
    assert_eq!(names, [b"i", b"j"]);
    assert!(before.find(b"j").unwrap().progress().is_done(), "its scan is skipped");
    assert!(!after.find(b"j").unwrap().progress().is_done(), "the keys of a file are scanned");
    for (index, other) in after.indexes().iter().zip(before.indexes()) {
        assert_eq!(index.index().rules().definition, other.index().rules().definition);
        let [one, other] = [index, &other].map(|index| index.index().rules());
        assert_eq!(one.synonyms.dump(), other.synonyms.dump());
        assert_eq!(one.synonyms.fingerprint(), other.synonyms.fingerprint());
    }
    let of = |catalogue: &Catalogue| catalogue.with_dictionaries(|all| format!("{all:?}"));
    assert_eq!(of(&after), of(&before));
    assert_eq!(after.find(b"x").unwrap().name(), b"i");
    let whole = words.iter().find(|command| command[..2] == [&b"FT.CREATE"[..], b"j"]).unwrap();
    let broken = [vec![b"FT.CREATE".as_slice(), b"k"], whole.clone()];
    assert_eq!(after.replace(&broken, MEMORY).len(), 1);
    assert_eq!(after.indexes().len(), 1);
}

#[test]
fn commands_that_name_an_index_are_counted() {
    let catalogue = catalogue();
    for (command, uses) in [
        ("FT.CREATE i SCHEMA t TEXT", 0),
        ("FT.ALTER i SCHEMA ADD n NUMERIC", 1),
        ("FT.ALIASADD a i", 2),
        ("FT.ALIASUPDATE a i", 4),
        ("FT.ALIASDEL a", 5),
        ("FT.ALIASDEL i", 5),
    ] {
        run(&catalogue, command);
        let index = catalogue.find(b"i").unwrap();
        assert_eq!(index.uses(), uses, "{command}");
        index.count_dialect(3);
        index.count_dialect(9);
        assert_eq!(index.dialects(), [false, false, true, false]);
    }
}
