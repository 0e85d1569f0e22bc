//! Generated commands on this crate and on RedisBloom: equal answers, equal SCANDUMP pieces, equal DUMP
//! bytes.
//!
//! Without a server the answers are those that RedisBloom 2.8.2 (Redis Stack 7.4) once gave, in
//! `tests/fixtures/`. With its address in `MARTLET_SKETCH_ORACLE` (host:port; `CONFIG SET rdbcompression no`
//! is sent) further seeds run against it, `MARTLET_SKETCH_COMMANDS` commands for each type. With
//! `MARTLET_WRITE_FIXTURES` set the fixtures are recorded again.

mod bloom;
mod cms;
mod cuckoo;
mod session;
mod tdigest;
mod topk;
mod words;

use session::Session;

/// Commands of a recorded session.
const RECORDED: usize = 250;

/// Runs a generator against its recorded session, or records it.
fn recorded(name: &str, run: impl Fn(&mut Session, u64)) {
    let mut session = Session::recorded(name);
    run(&mut session, 1);
    session.finish();
}

/// Runs a generator against the server, if there is one.
fn live(name: &str, run: impl Fn(&mut Session, u64)) {
    let Some(address) = session::oracle() else {
        return session::skip(name);
    };
    let commands = session::number("MARTLET_SKETCH_COMMANDS").unwrap_or(20_000);
    let first = session::number("MARTLET_SKETCH_SEED").unwrap_or(2);
    let mut done = 0;
    for seed in first.. {
        println!("{name}: MARTLET_SKETCH_SEED={seed}");
        let mut session = Session::live(&address, name);
        run(&mut session, seed);
        done += session.finish();
        if done >= commands {
            break;
        }
    }
    println!("{name}: {done} commands were equal");
}

macro_rules! family {
    ($name:ident) => {
        mod $name {
            #[test]
            fn is_as_recorded() {
                crate::recorded(stringify!($name), super::super::$name::run);
            }

            #[test]
            fn is_as_the_oracle() {
                crate::live(stringify!($name), super::super::$name::run);
            }
        }
    };
}

mod tests {
    family!(bloom);
    family!(cuckoo);
    family!(cms);
    family!(topk);
    family!(tdigest);

    #[test]
    fn topk_decays_as_the_oracle_does() {
        let Some(address) = crate::session::oracle() else {
            return crate::session::skip("topk with chance");
        };
        (1..6).for_each(|seed| crate::topk::decay_by_chance(&address, seed));
    }

    #[test]
    fn words_are_those_of_redis_8() {
        let Some(address) = crate::session::oracle() else {
            return crate::session::skip("words");
        };
        let mut session = crate::Session::live(&address, "words");
        if !session.is_redis_8 {
            return crate::session::skip("words of Redis 8");
        }
        crate::words::run(&mut session);
        session.finish();
    }
}
