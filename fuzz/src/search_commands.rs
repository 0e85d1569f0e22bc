//! The commands that change indexes, aliases, synonyms and dictionaries, under any arguments: a line is a
//! command, its words lie between blanks. One that is refused changes nothing, and the list of commands that
//! a file has makes the same catalogue again.

use martlet_engine::Engine;
use martlet_indexes::Catalogue;

/// The machine's memory, bytes.
const MEMORY: u64 = 1 << 30;

thread_local! {
    /// One for each thread: an engine stays to its thread's end.
    static CATALOGUES: [Catalogue; 2] = std::array::from_fn(|_| {
        let engine: &'static Engine = Box::leak(Box::new(Engine::new(1).expect("an engine")));
        Catalogue::new(engine, 1)
    });
}

/// Runs the commands, and makes their outcome again.
pub fn check(data: &[u8]) {
    CATALOGUES.with(|[catalogue, other]| {
        catalogue.clear();
        for line in data.split(|byte| *byte == b'\n').take(32) {
            let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
            let before = catalogue.commands();
            if catalogue.change(&words, MEMORY).is_err() {
                assert_eq!(catalogue.commands(), before, "a command that is refused changes nothing");
            }
        }
        let list = catalogue.commands();
        let words: Vec<Vec<&[u8]>> =
            list.iter().map(|command| command.iter().map(|word| &**word).collect()).collect();
        assert_eq!(other.replace(&words, MEMORY), []);
        assert_eq!(other.commands(), list);
        for (one, same) in catalogue.indexes().iter().zip(other.indexes()) {
            let [one, same] = [one.index().rules(), same.index().rules()];
            assert_eq!(one.definition, same.definition);
            assert_eq!(one.synonyms.fingerprint(), same.synonyms.fingerprint());
        }
    });
}

/// Commands of every kind.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "FT.CREATE i PREFIX 2 a: b: LANGUAGE french SCHEMA t TEXT WEIGHT 2 SORTABLE g TAG SEPARATOR ;\n\
         FT.ALTER i SCHEMA ADD n NUMERIC\nFT.ALIASADD x i\nFT.SYNUPDATE x g SKIPINITIALSCAN b a\n\
         FT.SYNUPDATE i h c b\nFT.DICTADD d one two\nFT.DICTDEL d one",
        "FT.CREATE i TEMPORARY 9 SCHEMA t TEXT\nFT._CREATEIFNX i SCHEMA t TEXT\nFT._ALIASADDIFNX a i\n\
         FT.CREATE j ON JSON FILTER @n>1 SCHEMA $.t AS t TEXT\nFT.ALIASUPDATE a j\nFT.DROPINDEX a DD",
        "FT.CREATE v SKIPINITIALSCAN SCHEMA v VECTOR HNSW 8 TYPE FLOAT32 DIM 4 DISTANCE_METRIC L2 M 8\n\
         FT._DROPINDEXIFX none\nFT.ALIASDEL none\nFT._ALIASDELIFX none\nFT._DROPINDEXIFX v",
        "FT.CREATE s STOPWORDS 1 the SCORE 0.5 NOHL NOFREQS SCHEMA s GEOSHAPE FLAT l GEO INDEXMISSING\n\
         FT.ALTER s SKIPINITIALSCAN SCHEMA ADD t TEXT PHONETIC dm:en NOSTEM NOINDEX\nFT.DICTADD d ",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into()
}
