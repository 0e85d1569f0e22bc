//! Templates: the output of each placeholder, and the refused ones.

use super::*;
use martlet_client::resp;

fn render(template: &Template, count: usize) -> Vec<Vec<String>> {
    let (mut random, mut pool) = (Random::seeded(5), value_pool(5));
    let (mut drawn, mut out, mut scratch) = (Drawn::default(), Vec::new(), Vec::new());
    let variables = [77; MAX_VARIABLES];
    let mut draw = Draw {
        random: &mut random,
        pool: &mut pool,
        variables: &variables,
        tags: &[*b"abc"],
        drawn: &mut drawn,
    };
    for _ in 0..count {
        template.append(&mut out, &mut scratch, &mut draw);
    }
    requests(&out)
}

fn requests(mut bytes: &[u8]) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    while let Ok(Some((reply, used))) = resp::decode(bytes) {
        let items = reply.items().expect("a request is an array");
        all.push(
            items.iter().map(|i| String::from_utf8_lossy(i.text().expect("bulk")).into_owned()).collect(),
        );
        bytes = &bytes[used..];
    }
    assert!(bytes.is_empty(), "whole requests only");
    all
}

#[test]
fn every_placeholder_prints_what_the_language_says() {
    let text = "HSET {key uniform 1000} {rand 10} {value 64} {range 100 10} {int -5 -5} x{key sequence 3}y {value 3-5}";
    let template = Template::parse(text, &[]).expect("valid");
    assert_eq!(template.fixed_len(), None);
    for (n, request) in render(&template, 50).iter().enumerate() {
        assert_eq!(request.len(), 9);
        assert!(request[1].starts_with("key_0000000") && request[1].len() == 14);
        assert!(request[2].parse::<u64>().expect("a number") < 10);
        assert!(request[3].len() == 64 && request[3].bytes().all(|b| b.is_ascii_alphanumeric()));
        let (low, high): (u64, u64) = (request[4].parse().expect("low"), request[5].parse().expect("high"));
        assert_eq!(high - low, 10);
        assert_eq!(request[6], "-5");
        assert_eq!(request[7], format!("xkey_{:010}y", n % 3));
        assert!((3..=5).contains(&request[8].len()));
    }
}

#[test]
fn patching_draws_as_appending_does() {
    let template = Template::parse("SET {key uniform 100000} {value 16}", &[]).expect("valid");
    let patches = template.patches(4).expect("fixed width");
    let (mut random, mut pool) = (Random::seeded(5), value_pool(5));
    let (mut drawn, mut out, mut scratch) = (Drawn::default(), Vec::new(), Vec::new());
    let variables = [0; MAX_VARIABLES];
    let mut draw =
        Draw { random: &mut random, pool: &mut pool, variables: &variables, tags: &[], drawn: &mut drawn };
    for _ in 0..4 {
        template.append(&mut out, &mut scratch, &mut draw);
    }
    let first = requests(&out);
    template.patch(&patches, &mut out, &mut draw);
    let second = requests(&out);
    let expected = render(&template, 8);
    assert_eq!(first, expected[..4]);
    assert_eq!(second, expected[4..]);
    assert_eq!(out.len(), 4 * template.fixed_len().expect("fixed"));
}

#[test]
fn classic_arguments_know_only_the_classic_placeholders() {
    let arguments = ["MSET", "key:{tag}:__rand_int__", "{key uniform 5}", "<__data__>"];
    let plain = render(&Template::classic(&arguments, &Words::default()), 1);
    assert_eq!(plain[0][..3], arguments[..3]);
    assert_eq!(plain[0][3], "<>");
    let words = Words { keyspace: Some(1), cluster: true, data: b"xyz", ..Words::default() };
    let random = render(&Template::classic(&arguments, &words), 1);
    assert_eq!(random[0], ["MSET", "key:{abc}:000000000000", "{key uniform 5}", "<xyz>"]);
}

fn line(text: &str) -> Vec<Vec<u8>> {
    text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn a_sequence_shares_its_numbered_placeholders() {
    let words = Words { keyspace: Some(1_000_000_000), ..Words::default() };
    let commands = commands(&line("set a__rand_1st__ __rand_int__ ; 2 get a__rand_1st__ ; get __rand_2nd__"))
        .expect("valid");
    assert_eq!(commands.iter().map(|c| c.0).collect::<Vec<_>>(), [1, 2, 1]);
    let template = Template::sequence(&commands, &words);
    assert_eq!((template.requests(), render(&template, 1).len()), (4, 4));
    let requests = render(&template, 2);
    for turn in requests.chunks(4) {
        assert_eq!(turn[0][1], turn[1][1]);
        assert_eq!(turn[1], turn[2]);
        assert_ne!(turn[0][2], turn[0][1][1..]);
        assert_ne!(turn[3][1], turn[0][1][1..]);
    }
    assert_ne!(requests[0][1], requests[4][1]);
    // Patched in place as appended.
    let patches = template.patches(8).expect("fixed width");
    assert_eq!(patches.places.len(), 2 * 5);
}

#[test]
fn sequential_numbers_follow_each_other_for_each_placeholder() {
    let words = Words { keyspace: Some(5), sequential: true, ..Words::default() };
    let template =
        Template::classic(&["SET", "__rand_int__", "__rand_int__", "__rand_1st__", "__rand_1st__"], &words);
    let numbers: Vec<Vec<u64>> = render(&template, 3)
        .iter()
        .map(|request| request[1..].iter().map(|word| word.parse().expect("digits")).collect())
        .collect();
    assert_eq!(numbers, [[0, 1, 0, 0], [2, 3, 1, 1], [4, 0, 2, 2]]);
}

#[test]
fn a_malformed_sequence_is_named() {
    for text in ["get a ;", "; get a", "get a ; ; get b"] {
        assert!(commands(&line(text)).expect_err(text).contains("a command is missing"), "{text}");
    }
    assert!(commands(&line("0 get a")).expect_err("none").contains("'0' does not say how often"));
    assert_eq!(commands(&line("5")).expect("a command"), [(1, line("5"))]);
}

#[test]
fn sizes_follow_their_law() {
    let template = Template::parse("SET k {value list 10:3,20:1}", &[]).expect("valid");
    let tens = render(&template, 4000).iter().filter(|r| r[2].len() == 10).count();
    assert!((2850..3150).contains(&tens), "seed 5: {tens} of 4000");
    let template = Template::parse("SET k {value lognormal 100 0.5 1000}", &[]).expect("valid");
    let mut sizes: Vec<usize> = render(&template, 4001).iter().map(|r| r[2].len()).collect();
    sizes.sort_unstable();
    assert!((95..=105).contains(&sizes[2000]), "seed 5: median {}", sizes[2000]);
}

#[test]
fn values_differ_whatever_their_size() {
    for size in [16, 5_000, 100_000, 200_000] {
        let template = Template::parse(format!("SET k {{value {size}}}"), &[]).expect("valid");
        let mut values: Vec<String> =
            render(&template, 400_000 / size).iter().map(|request| request[2].clone()).collect();
        assert!(values.iter().all(|v| v.len() == size && v.bytes().all(|b| b.is_ascii_alphanumeric())));
        let drawn = values.len();
        values.sort_unstable();
        values.dedup();
        // 25,000 draws of 262,000 places: some 5 % meet.
        assert!(values.len() * 10 >= drawn * 9, "seed 5: {} of {drawn} values of {size} bytes", values.len());
    }
}

#[test]
fn quotes_variables_and_hash_tags() {
    let names = ["user".to_string()];
    let template =
        Template::parse(r#"EVAL "return redis.call('PING')" 0 u:{user} {user1000}.x 'a b'"#, &names)
            .expect("ok");
    assert_eq!(
        render(&template, 1)[0],
        ["EVAL", "return redis.call('PING')", "0", "u:77", "{user1000}.x", "a b"]
    );
}

#[test]
fn objects_of_json_are_text_around_placeholders() {
    let names = ["user".to_string()];
    let text = r#"JSON.SET k $ {"a":{rand_int 1},"b":{"c":[{},{"u":{user}}]}} {"x": 1, "y":[2]} {}"#;
    let template = Template::parse(text, &names).expect("ok");
    let document = r#"{"a":000000000000,"b":{"c":[{},{"u":77}]}}"#;
    assert_eq!(render(&template, 1)[0], ["JSON.SET", "k", "$", document, r#"{"x": 1, "y":[2]}"#, "{}"]);
}

/// The numbers of a request's argument that is a vector.
fn components(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().expect("four bytes"))).collect()
}

#[test]
fn vectors_are_random_and_of_their_dimension() {
    let own = Template::parse("VADD k FP32 {vector 301} e", &[]).expect("valid");
    let words = Words { dimension: Some(301), ..Words::default() };
    let classic = Template::classic(&["VADD", "k", "FP32", "__vector__", "e"], &words);
    let (mut random, mut pool, mut drawn) = (Random::seeded(5), value_pool(5), Drawn::default());
    let variables = [0; MAX_VARIABLES];
    let mut draw =
        Draw { random: &mut random, pool: &mut pool, variables: &variables, tags: &[], drawn: &mut drawn };
    let mut all = Vec::new();
    for template in [own, classic] {
        let mut out = Vec::new();
        template.append(&mut out, &mut Vec::new(), &mut draw);
        let patches = template.patches(1).expect("fixed width");
        for _ in 0..10 {
            let (request, used) = resp::decode(&out).expect("well-formed").expect("whole");
            assert_eq!(used, out.len());
            let vector = components(request.items().expect("an array")[3].text().expect("bulk"));
            assert_eq!(vector.len(), 301);
            all.extend(vector);
            template.patch(&patches, &mut out, &mut draw);
        }
    }
    assert!(all.iter().all(|component| (-1.0..1.0).contains(component)));
    let mean = all.iter().sum::<f32>() / all.len() as f32;
    assert!(mean.abs() < 0.03, "seed 5: {mean}");
    let drawn = all.len();
    all.sort_unstable_by(f32::total_cmp);
    all.dedup();
    assert!(all.len() + 10 > drawn, "seed 5: {} of {drawn} differ", all.len());
}

#[test]
fn a_malformed_template_is_named() {
    for (text, message) in [
        ("SET {", "never closed"),
        ("SET {key foo 10} x", "unknown distribution 'foo'"),
        ("SET {key uniform} x", "needs a size"),
        ("SET {key uniform abc}", "'abc' is not a whole number"),
        ("SET k {value 0}", "size of 0"),
        ("SET k {value 9-3}", "empty"),
        ("SET k 'x", "never closed"),
        ("SET k {int 5 1}", "empty"),
        ("SET k {foo bar baz}", "unknown placeholder"),
        ("VADD k FP32 {vector 0} e", "'0' is not a number of components"),
        ("VADD k FP32 {vector 70000} e", "from 1 to 65536"),
        ("VADD k FP32 {vector} e{vector 1 2}", "wrong number of parameters for 'vector'"),
        ("JSON.SET k $ {\"a\":{int 5}}", "wrong number of parameters for 'int'"),
        ("  ", "empty"),
    ] {
        let error = Template::parse(text, &[]).err().expect(text);
        assert!(error.contains(message), "{text}: {error}");
    }
}

/// Pairs of numbers that several threads draw from one template at the same time, each in all the ways in
/// which requests are made: one by one, and patched in a pipeline of seven.
fn pairs_of_threads(template: &Template, turns: usize) -> Vec<Vec<String>> {
    const THREADS: usize = 4;
    let draw_all = |thread: usize| {
        let (mut random, mut pool) = (Random::seeded(thread as u64), value_pool(5));
        let (mut drawn, mut out, mut scratch) = (Drawn::default(), Vec::new(), Vec::new());
        let variables = [0; MAX_VARIABLES];
        let mut draw = Draw {
            random: &mut random,
            pool: &mut pool,
            variables: &variables,
            tags: &[],
            drawn: &mut drawn,
        };
        let (mut all, mut left) = (Vec::new(), turns / THREADS);
        if let Some(patches) = template.patches(7 * template.requests()) {
            (0..7).for_each(|_| template.append(&mut out, &mut scratch, &mut draw));
            all.extend(requests(&out));
            left -= 7;
            while left >= 7 {
                template.patch(&patches, &mut out, &mut draw);
                all.extend(requests(&out));
                left -= 7;
            }
            out.clear();
        }
        (0..left).for_each(|_| template.append(&mut out, &mut scratch, &mut draw));
        all.extend(requests(&out));
        all
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || draw_all(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("draws")).collect()
    })
}

/// 100 and 107 have no common divisor, so that 10,700 requests have each pair once, whichever threads draw
/// them.
#[test]
fn sequences_of_one_request_do_not_race() {
    for text in [
        "SADD {key sequence 100} {key sequence 107}",
        "ZADD {key sequence 100} {rand 70000} {key sequence 107}",
        "SADD {number sequence 100} x{number sequence 107}",
        "SADD {key sequence 107} {value 5} {key sequence 100} {key uniform 9}",
    ] {
        let template = Template::parse(text, &[]).expect("valid");
        let mut pairs: Vec<(String, String)> = pairs_of_threads(&template, 10_700)
            .into_iter()
            .map(|request| match request.as_slice() {
                [_, one, other] | [_, one, _, other] => (one.clone(), other.clone()),
                [_, one, _, other, _] => (one.clone(), other.clone()),
                _ => panic!("{request:?}"),
            })
            .collect();
        pairs.sort();
        pairs.dedup();
        assert_eq!(pairs.len(), 10_700, "{text}");
    }
}

/// The same of valkey-benchmark's words: each turn has one number for all of them, and the occurrences of
/// `__rand_int__` take numbers that follow each other.
#[test]
fn sequential_words_of_one_turn_do_not_race() {
    let words = Words { keyspace: Some(100_000), sequential: true, ..Words::default() };
    let commands =
        commands(&line("set __rand_1st__ __rand_2nd__ ; 2 set __rand_int__ __rand_1st__")).expect("valid");
    let template = Template::sequence(&commands, &words);
    let requests = pairs_of_threads(&template, 4000);
    assert_eq!(requests.len(), 12_000);
    let number = |text: &String| text.parse::<u64>().expect("digits");
    let mut turns = Vec::new();
    for turn in requests.chunks(3) {
        let of_turn = number(&turn[0][1]);
        let same = [&turn[0][2], &turn[1][2], &turn[2][2]].map(number);
        assert_eq!(
            (same, [number(&turn[1][1]), number(&turn[2][1])]),
            ([of_turn; 3], [2 * of_turn, 2 * of_turn + 1])
        );
        turns.push(of_turn);
    }
    turns.sort_unstable();
    assert!(turns.iter().copied().eq(0..4000));
}
