//! Commands between MULTI and EXEC: a client's, those of the replication stream, and those of an append-only
//! file.
//!
//! Invariant: nothing of a transaction runs before its EXEC has been read.

use martlet_protocol::request::{Args, OwnedArgs};
use martlet_spec::{Acl, Control, Flags, Spec};

use crate::shards;

/// A command as a reader knows it.
pub trait Resolves: Copy {
    /// Its specification.
    fn spec(&self) -> &'static Spec;
}

/// The commands of a transaction, in order.
#[derive(Debug)]
pub struct Queue<E>(Vec<(E, OwnedArgs)>);

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Queue(Vec::new())
    }
}

impl<E: Resolves> Queue<E> {
    /// Adds a command; returns the bytes that it takes.
    pub fn push(&mut self, entry: E, args: &Args<'_>) -> usize {
        let owned = args.to_owned();
        let bytes = owned.heap_bytes() + size_of::<(E, OwnedArgs)>();
        self.0.push((entry, owned));
        bytes
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The commands with their arguments.
    pub fn iter(&self) -> impl Iterator<Item = (E, Args<'_>)> {
        self.0.iter().map(|(entry, args)| (*entry, args.view()))
    }

    /// Whether one of the commands has these flags.
    pub fn any_has(&self, flags: Flags) -> bool {
        self.0.iter().any(|(entry, _)| entry.spec().flags.has(flags))
    }

    /// Whether all of the commands have these flags.
    pub fn all_have(&self, flags: Flags) -> bool {
        self.0.iter().all(|(entry, _)| entry.spec().flags.has(flags))
    }

    /// The shards of all keys, in any order and with repetitions; `None` if they cannot be known: a command
    /// walks, a script may touch any key and is not undone, or keys are named by values.
    pub fn shards(&self) -> Option<Vec<usize>> {
        let mut all = Vec::new();
        for (entry, args) in self.iter() {
            let spec = entry.spec();
            if spec.flags.has(Flags::WALK) || spec.acl().has(Acl::SCRIPTING) {
                return None;
            }
            all.extend(shards(spec, &args)?);
        }
        Some(all)
    }
}

/// A reader's next step.
#[derive(Debug)]
pub enum Step<E> {
    /// The command runs on its own.
    Alone,
    /// It was queued, or begins or drops a transaction.
    Nothing,
    /// A transaction is whole.
    Whole(Queue<E>),
}

/// Why a command is out of place.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum OutOfPlace {
    /// MULTI in a transaction, which goes on.
    Nested,
    /// EXEC or DISCARD outside of one.
    Outside,
}

/// Assembles the transactions of a stream of commands.
#[derive(Debug)]
pub struct Assembler<E>(Option<Queue<E>>);

impl<E> Default for Assembler<E> {
    fn default() -> Self {
        Assembler(None)
    }
}

impl<E: Resolves> Assembler<E> {
    /// Whether a transaction has begun that has not ended.
    pub fn is_inside(&self) -> bool {
        self.0.is_some()
    }

    /// Takes up the next command.
    ///
    /// # Errors
    /// It is out of place, and changes nothing.
    pub fn take(&mut self, entry: E, args: &Args<'_>) -> Result<Step<E>, OutOfPlace> {
        match (entry.spec().control, &mut self.0) {
            (Control::BeginTransaction, Some(_)) => Err(OutOfPlace::Nested),
            (Control::BeginTransaction, None) => {
                self.0 = Some(Queue::default());
                Ok(Step::Nothing)
            }
            (Control::ExecuteTransaction, _) => self.0.take().map(Step::Whole).ok_or(OutOfPlace::Outside),
            (Control::DiscardTransaction, _) => {
                self.0.take().map(|_| Step::Nothing).ok_or(OutOfPlace::Outside)
            }
            (_, Some(queue)) => {
                queue.push(entry, args);
                Ok(Step::Nothing)
            }
            (_, None) => Ok(Step::Alone),
        }
    }

    /// Takes a transaction back that is to run when its EXEC is read again.
    pub fn put_back(&mut self, queue: Queue<E>) {
        self.0 = Some(queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Copy, Clone, Debug)]
    struct Named(&'static Spec);

    impl Resolves for Named {
        fn spec(&self) -> &'static Spec {
            self.0
        }
    }

    static MULTI: Spec = plain("multi", Control::BeginTransaction);
    static EXEC: Spec = plain("exec", Control::ExecuteTransaction);
    static DISCARD: Spec = plain("discard", Control::DiscardTransaction);

    const fn plain(name: &'static str, control: Control) -> Spec {
        crate::command(name, 1, ()).control(control).spec
    }

    fn read(assembler: &mut Assembler<Named>, spec: &'static Spec, words: &[&str]) -> String {
        let args = OwnedArgs::from_slices(words.iter().map(|word| word.as_bytes()));
        match assembler.take(Named(spec), &args.view()) {
            Ok(Step::Whole(queue)) => {
                let each = queue.iter().map(|(_, args)| String::from_utf8_lossy(args.at(1)).into_owned());
                each.collect::<Vec<_>>().join(",")
            }
            Ok(step) => format!("{step:?}"),
            Err(error) => format!("{error:?}"),
        }
    }

    #[test]
    fn what_is_between_the_bounds_comes_as_a_whole() {
        let get =
            &crate::string::COMMANDS.iter().find(|command| command.spec.full_name == "get").unwrap().spec;
        let mut assembler = Assembler::default();
        let mut read = |spec, words: &[&str]| read(&mut assembler, spec, words);
        assert_eq!(read(get, &["GET", "a"]), "Alone");
        assert_eq!([read(&EXEC, &["EXEC"]), read(&DISCARD, &["DISCARD"])], ["Outside", "Outside"]);
        assert_eq!(read(&MULTI, &["MULTI"]), "Nothing");
        assert_eq!(read(get, &["GET", "b"]), "Nothing");
        assert_eq!(read(&MULTI, &["MULTI"]), "Nested");
        assert_eq!(read(get, &["GET", "c"]), "Nothing");
        assert_eq!(read(&EXEC, &["EXEC"]), "b,c");
        assert_eq!(read(&MULTI, &["MULTI"]), "Nothing");
        assert_eq!(read(get, &["GET", "d"]), "Nothing");
        assert_eq!(read(&DISCARD, &["DISCARD"]), "Nothing");
        assert_eq!(read(get, &["GET", "e"]), "Alone");
    }
}
