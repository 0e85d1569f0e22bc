//! The forms, beside what redis-cli prints, and the form for people beside a naive one over whole replies.

use super::*;
use martlet_client::parts::PartReader;
use proptest::prelude::*;

/// The printed form of a reply's bytes, cut into chunks.
fn printed(output: Output, bytes: &[u8], cut: usize) -> String {
    let style = Style::new(output);
    let (mut printer, mut out, mut reader) =
        (style.printer(Expected::default()), Vec::new(), PartReader::default());
    for chunk in bytes.chunks(cut) {
        reader.feed(chunk, |part| printer.part(part, &mut out)).expect("well-formed");
    }
    printer.end(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// A reply, and its five printed forms.
const REPLIES: &[(&str, [&str; 5])] = &[
    ("+OK\r\n", ["OK\n", "OK\n", "\"OK\"\n", "\"OK\"\n", "\"OK\"\n"]),
    (
        "-ERR \"no\"\r\n",
        [
            "(error) ERR \"no\"\n",
            "ERR \"no\"\n\n",
            "ERROR,\"ERR \\\"no\\\"\"\n",
            "error:\"ERR \\\"no\\\"\"\n",
            "error:\"ERR \\\\\"no\\\\\"\"\n",
        ],
    ),
    (":-5\r\n", ["(integer) -5\n", "-5\n", "-5\n", "-5\n", "-5\n"]),
    ("$-1\r\n", ["(nil)\n", "\n", "NULL\n", "null\n", "null\n"]),
    ("*-1\r\n", ["(nil)\n", "\n", "NULL\n", "null\n", "null\n"]),
    ("$0\r\n\r\n", ["\"\"\n", "\n", "\"\"\n", "\"\"\n", "\"\"\n"]),
    (
        "$8\r\n\u{1}\t\"é\\\u{7}\u{7f}\r\n",
        [
            "\"\\x01\\t\\\"\\xc3\\xa9\\\\\\a\\x7f\"\n",
            "\u{1}\t\"é\\\u{7}\u{7f}\n",
            "\"\\x01\\t\\\"\\xc3\\xa9\\\\\\a\\x7f\"\n",
            "\"\\u0001\\t\\\"é\\\\\\u0007\u{7f}\"\n",
            "\"\\\\x01\\\\t\\\\\"\\\\xc3\\\\xa9\\\\\\\\\\\\a\\\\x7f\"\n",
        ],
    ),
    ("*0\r\n", ["(empty array)\n", "\n", "\n", "[]\n", "[]\n"]),
    ("%0\r\n", ["(empty hash)\n", "\n", "\n", "{}\n", "{}\n"]),
    ("~0\r\n", ["(empty set)\n", "\n", "\n", "[]\n", "[]\n"]),
    (
        "*2\r\n*2\r\n+a\r\n:1\r\n$-1\r\n",
        [
            "1) 1) a\n   2) (integer) 1\n2) (nil)\n",
            "a\n1\n\n",
            "\"a\",1,NULL\n",
            "[[\"a\",1],null]\n",
            "[[\"a\",1],null]\n",
        ],
    ),
    (
        "%2\r\n+a\r\n*2\r\n:1\r\n:2\r\n:7\r\n#t\r\n",
        [
            "1# a => \n   1) (integer) 1\n   2) (integer) 2\n2# (integer) 7 => (true)\n",
            "a 1\n2\n7 (true)\n",
            "\"a\",1,2,7,true\n",
            "{\"a\":[1,2],\"7\":true}\n",
            "{\"a\":[1,2],\"7\":true}\n",
        ],
    ),
    (
        "%2\r\n+a\r\n*1\r\n%1\r\n+b\r\n*1\r\n:1\r\n*1\r\n:1\r\n*1\r\n*2\r\n:1\r\n:2\r\n",
        [
            "1# a => 1) 1# b => 1) (integer) 1\n2# 1) (integer) 1 => \n   1) 1) (integer) 1\n      2) (integer) 2\n",
            "a b 1\n1 1\n2\n",
            "\"a\",\"b\",1,1,1,2\n",
            "{\"a\":[{\"b\":[1]}],\"[1]\":[[1,2]]}\n",
            "{\"a\":[{\"b\":[1]}],\"[1]\":[[1,2]]}\n",
        ],
    ),
    (
        "*2\r\n=7\r\ntxt:a\nb\r\n,1.50\r\n",
        [
            "1) a\nb\n2) (double) 1.50\n",
            "a\nb\n1.50\n",
            "\"a\\nb\",1.50\n",
            "[\"a\\nb\",1.50]\n",
            "[\"a\\\\nb\",1.50]\n",
        ],
    ),
    ("~1\r\n_\r\n", ["1~ (nil)\n", "\n", "NULL\n", "[null]\n", "[null]\n"]),
    ("(123\r\n", ["(big number) 123\n", "123\n", "123\n", "123\n", "123\n"]),
    (
        "*1\r\n-ERR a\r\n",
        [
            "1) (error) ERR a\n",
            "ERR a\n\n",
            "ERROR,\"ERR a\"\n",
            "[error:\"ERR a\"]\n",
            "[error:\"ERR a\"]\n",
        ],
    ),
];

#[test]
fn every_form_is_as_redis_cli_prints_it_wherever_it_is_cut() {
    let outputs = [Output::Standard, Output::Raw, Output::Csv, Output::Json, Output::QuotedJson];
    for (reply, expected) in REPLIES {
        for (output, expected) in outputs.into_iter().zip(expected) {
            for cut in 1..=reply.len() {
                assert_eq!(printed(output, reply.as_bytes(), cut), *expected, "{reply:?} as {output:?}");
            }
        }
    }
}

#[test]
fn numbers_are_as_wide_as_the_largest() {
    let reply = format!("*10\r\n{}", ":1\r\n".repeat(10));
    let text = printed(Output::Standard, reply.as_bytes(), 7);
    assert!(text.starts_with(" 1) (integer) 1\n 2) ") && text.ends_with("\n10) (integer) 1\n"), "{text}");
}

#[test]
fn delimiters_are_those_that_were_asked_for() {
    let (element_delimiter, reply_delimiter) = (b", ".into(), b"; ".into());
    let style = Style { element_delimiter, reply_delimiter, ..Style::new(Output::Raw) };
    let pair = (Reply::Int(1), Reply::Int(2));
    assert_eq!(style.text(&Reply::Array(vec![Reply::Int(1), Reply::Map(vec![pair])])), b"1, 1 2; ");
}

/// Whether redis-cli prints a reply on several lines.
fn is_multiline(reply: &Reply) -> bool {
    match reply {
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
            items.len() > 1 || items.first().is_some_and(is_multiline)
        }
        Reply::Map(pairs) => pairs.len() > 1 || pairs.first().is_some_and(|(_, value)| is_multiline(value)),
        _ => false,
    }
}

/// The form for people, as a function of the whole reply.
fn naive(reply: &Reply, prefix: &str) -> String {
    let (separator, count) = match reply {
        Reply::Array(items) | Reply::Push(items) => (')', items.len()),
        Reply::Set(items) => ('~', items.len()),
        Reply::Map(pairs) => ('#', pairs.len()),
        leaf => return String::from_utf8(Style::new(Output::Standard).text(leaf)).expect("ASCII"),
    };
    if count == 0 {
        return String::from_utf8(Style::new(Output::Standard).text(reply)).expect("ASCII");
    }
    let digits = count.to_string().len();
    let inner = format!("{prefix}{}", " ".repeat(digits + 2));
    let mut out = String::new();
    let number = |out: &mut String, index: usize| {
        out.push_str(if index == 0 { "" } else { prefix });
        out.push_str(&format!("{:>digits$}{separator} ", index + 1));
    };
    if let Reply::Map(pairs) = reply {
        for (index, (key, value)) in pairs.iter().enumerate() {
            number(&mut out, index);
            out.push_str(naive(key, &inner).strip_suffix('\n').expect("a line"));
            out.push_str(" => ");
            if is_multiline(value) {
                out.push_str(&format!("\n{inner}"));
            }
            out.push_str(&naive(value, &inner));
        }
        return out;
    }
    for (index, item) in reply.items().expect("a sequence").iter().enumerate() {
        number(&mut out, index);
        out.push_str(&naive(item, &inner));
    }
    out
}

fn any_reply() -> impl Strategy<Value = Reply> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Reply::Int),
        any::<bool>().prop_map(Reply::Bool),
        Just(Reply::Null),
        "[a-z ]{0,9}".prop_map(|text| Reply::Simple(text.into_bytes())),
        "[a-z ]{0,9}".prop_map(|text| Reply::Error(text.into_bytes())),
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(Reply::Bulk),
        "[a-z]{0,9}".prop_map(|text| Reply::Verbatim(*b"txt", text.into_bytes())),
    ];
    leaf.prop_recursive(5, 60, 4, |inner| {
        let some = proptest::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            some.clone().prop_map(Reply::Array),
            some.clone().prop_map(Reply::Set),
            some.prop_map(Reply::Push),
            proptest::collection::vec((inner.clone(), inner), 0..4).prop_map(Reply::Map),
        ]
    })
}

proptest! {
    #[test]
    fn a_reply_in_parts_is_printed_as_a_whole_one_is(reply in any_reply()) {
        let text = String::from_utf8(Style::new(Output::Standard).text(&reply)).expect("ASCII");
        prop_assert_eq!(text, naive(&reply, ""));
    }
}
