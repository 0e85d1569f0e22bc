//! Requests that a command's syntax allows, with the places of their keys: what the three forms of a grammar
//! (syntax, key finder, handler) are compared by.
//!
//! Invariant: a word of the grammar may also come as a name of a key, or as a free text.

use martlet_base::random::Random;
use martlet_protocol::request::OwnedArgs;
use martlet_spec::syntax::{Argument, Kind};
use martlet_spec::{Flags, Spec};

/// Most repetitions of an argument.
const REPEATS_MAX: u64 = 3;

/// A generated request.
#[derive(Debug, Default)]
pub struct Generated {
    /// Its words, the command's name first.
    pub words: Vec<Vec<u8>>,
    /// The indexes of its keys, ascending.
    pub keys: Vec<usize>,
}

/// Generates requests of a command.
pub struct Generator<'r> {
    random: &'r mut Random,
    /// Words of the grammar.
    tokens: Vec<&'static str>,
    /// How often arguments are repeated in this request, and the count that is said of them.
    repeats: u64,
    /// Where that count is.
    count: Option<usize>,
    out: Generated,
}

impl Generator<'_> {
    /// A request that the syntax allows.
    pub fn generate(spec: &Spec, random: &mut Random) -> Generated {
        let arguments = spec.arguments();
        let mut tokens = Vec::new();
        collect_tokens(&arguments, &mut tokens);
        let repeats = 1 + random.below(REPEATS_MAX);
        let mut generator = Generator { random, tokens, repeats, count: None, out: Generated::default() };
        for word in spec.full_name.split('|') {
            generator.word(word);
        }
        generator.sequence(&arguments);
        generator.out
    }

    fn coin(&mut self) -> bool {
        self.random.below(2) == 0
    }

    fn word(&mut self, word: impl AsRef<[u8]>) {
        self.out.words.push(word.as_ref().to_vec());
    }

    /// The arguments in order; options that follow each other in any order, but for the last if it takes all
    /// the rest.
    fn sequence(&mut self, arguments: &[Argument]) {
        let mut at = 0;
        while let Some(rest) = arguments.get(at..).filter(|rest| !rest.is_empty()) {
            let options = rest.iter().take_while(|argument| is_option(argument)).count();
            let mut order: Vec<usize> = (0..options).collect();
            for i in (1..options).rev() {
                order.swap(i, self.random.below(i as u64 + 1) as usize);
            }
            order.iter().filter_map(|i| rest.get(*i)).for_each(|option| self.argument(option));
            match rest.get(options) {
                Some(next) if options == 0 || !is_option(next) => self.argument(next),
                _ => {}
            }
            at += options + 1;
        }
    }

    fn argument(&mut self, argument: &Argument) {
        if argument.is_optional && self.coin() {
            // Where they may be left out, their number says so.
            if let Some(count) = self.count.filter(|_| argument.kind == Kind::Key) {
                self.out.words.get_mut(count).into_iter().for_each(|word| *word = b"0".to_vec());
            }
            return;
        }
        let times = if argument.is_multiple { self.repeats } else { 1 };
        for time in 0..times {
            if let Some(token) = argument.token.filter(|_| time == 0 || argument.is_token_multiple) {
                let is_lower = self.coin();
                self.word(if is_lower { token.to_ascii_lowercase() } else { token.to_owned() });
            }
            self.value(argument);
        }
    }

    fn value(&mut self, argument: &Argument) {
        match &argument.kind {
            Kind::PureToken => {}
            Kind::OneOf(arguments) => {
                let chosen = self.random.below(arguments.len() as u64) as usize;
                arguments.get(chosen).into_iter().for_each(|argument| self.argument(argument));
            }
            Kind::Block(arguments) => self.sequence(arguments),
            Kind::Key => {
                self.out.keys.push(self.out.words.len());
                let name = self.text("key");
                self.word(name);
            }
            Kind::Integer | Kind::UnixTime => {
                if argument.name == "numkeys" {
                    self.count = Some(self.out.words.len());
                }
                self.word(self.repeats.to_string());
            }
            Kind::Double => self.word("1.5"),
            Kind::Pattern => {
                let text = self.text("w_*");
                self.word(text);
            }
            Kind::String if argument.name == "id" => self.word("0-0"),
            Kind::String => {
                let text = self.text("text");
                self.word(text);
            }
        }
    }

    /// A word of the grammar, or another one.
    fn text(&mut self, other: &str) -> String {
        let pick = self.random.below(2 * self.tokens.len() as u64 + 1) as usize;
        self.tokens.get(pick).map_or_else(|| format!("{other}{pick}"), |token| (*token).to_owned())
    }
}

/// Whether the argument may stand anywhere among others of its kind.
fn is_option(argument: &Argument) -> bool {
    let begins_with_word = |argument: &Argument| argument.token.is_some();
    let is_marked = match &argument.kind {
        Kind::OneOf(arguments) => begins_with_word(argument) || arguments.iter().all(begins_with_word),
        Kind::Block(arguments) => {
            begins_with_word(argument) || arguments.first().is_some_and(begins_with_word)
        }
        _ => begins_with_word(argument),
    };
    let takes_the_rest = argument.is_multiple && !argument.is_token_multiple;
    argument.is_optional && is_marked && !takes_the_rest
}

fn collect_tokens(arguments: &[Argument], out: &mut Vec<&'static str>) {
    for argument in arguments {
        out.extend(argument.token.filter(|token| !token.is_empty()));
        collect_tokens(argument.kind.arguments().unwrap_or_default(), out);
    }
}

/// The indexes of a request's keys by its command's key spec, ascending; `None` if the arguments do not fit.
pub fn found_keys(spec: &Spec, words: &[Vec<u8>]) -> Option<Vec<usize>> {
    let owned = OwnedArgs::from_slices(words.iter().map(Vec::as_slice));
    let mut found = Vec::new();
    spec.key_indexes(&owned.view(), &mut found).then(|| {
        found.sort_unstable();
        found
    })
}

/// A request of the command, one of several, of which the key spec finds other keys than the syntax has.
pub fn key_disagreement(spec: &Spec, random: &mut Random) -> Option<String> {
    const REQUESTS: usize = 200;
    (0..REQUESTS).find_map(|_| {
        let Generated { words, keys } = Generator::generate(spec, random);
        let found = found_keys(spec, &words);
        let text = || words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
        // A count of none does not fit where keys are left out.
        let is_none = found.is_none() && keys.is_empty() && spec.flags.has(Flags::NO_MANDATORY_KEYS);
        (!is_none && found.as_ref() != Some(&keys))
            .then(|| format!("{}: {keys:?} placed, {found:?} found", text()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FAMILIES;
    use crate::testing::{Fixture, show};

    const REQUESTS: usize = 3000;

    /// Errors of a request that was understood.
    const UNDERSTOOD: [&str; 6] = [
        "-CMS: key does not exist",
        "-ERR T-Digest: key does not exist",
        "-NOGROUP ",
        "-ERR STORE option in GEORADIUS is not compatible with ",
        "-ERR could not decode requested zset member",
        "-ERR BY option of SORT denied in cluster mode",
    ];

    /// Commands whose keys a function finds: syntax, handler and finder are three forms of one grammar.
    #[test]
    fn three_forms_of_a_grammar_agree() {
        let seed = Random::from_entropy().below(u64::MAX);
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let commands = FAMILIES.iter().flat_map(|family| family.iter());
        let specs: Vec<&Spec> = commands
            .map(|command| &command.spec)
            .filter(|spec| spec.find_keys.is_some() || spec.full_name == "sort_ro")
            .collect();
        assert!(specs.len() >= 6, "{}", specs.len());
        for spec in specs {
            let mut fixture = Fixture::new();
            fixture.deny_blocking = true;
            for _ in 0..REQUESTS {
                let Generated { words, keys } = Generator::generate(spec, &mut random);
                let text =
                    words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
                assert_eq!(found_keys(spec, &words), Some(keys), "{text}, seed {seed}");
                let reply = show(&fixture.run_args(&words));
                let is_understood =
                    !reply.starts_with('-') || UNDERSTOOD.iter().any(|error| reply.starts_with(error));
                assert!(is_understood, "{text}: {reply}, seed {seed}");
            }
        }
    }

    /// All other commands: the key spec finds what the syntax calls a key.
    #[test]
    fn key_specs_find_the_keys_of_the_syntax() {
        let seed = Random::from_entropy().below(u64::MAX);
        println!("seed {seed}");
        let mut random = Random::seeded(seed);
        let commands = FAMILIES.iter().flat_map(|family| family.iter());
        let specs = commands.flat_map(|one| {
            std::iter::once(&one.spec).chain(one.subcommands.iter().map(|subcommand| &subcommand.spec))
        });
        let specs = specs.filter(|spec| !spec.keys.is_empty() && spec.find_keys.is_none());
        let failures: Vec<String> = specs.filter_map(|spec| key_disagreement(spec, &mut random)).collect();
        assert!(failures.is_empty(), "seed {seed}: {}", failures.join("\n"));
    }
}
