//! The same as `serde_json`, whatever the text.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Texts with everything in them that JSON has.
const SEEDS: [&str; 8] = [
    "{}",
    r#" { "b" : 1.00, "\u0061" : [ 1 ,-2e+9 , [] , {} ] } "#,
    r#"{"a":{"b":{"c":[[["d",{"e":null}],true],false]}},"f":"g"}"#,
    r#"{"text":"a long one, longer than a block of bytes that are looked at together, \"quoted\" \\ \/ \b\f\n\r\t é","n":-0.5E-7}"#,
    r#"{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"é漢字😀"}],"isError":false}}"#,
    "{\"a\"\t:\r\n[0,10,0.1,1e1,-0]\n,\"\":\"\"}",
    r#"{"\ud83d\ude00":"\ud800","x":"\uD83D\uDE00"}"#,
    r#"{"a":"0123456789012345678901234567890","b":"01234567890123456789012345678901","c":"012345678901234567890123456789012"}"#,
];
/// What is put in somewhere.
const BITS: [&str; 22] = [
    "\"", "\\", "{", "}", "[", "]", ",", ":", " ", "0", "1", "-", ".", "e", "+", "\u{0}", "\u{1f}",
    "\u{7f}", "é", "\\u12", "true", "nul",
];

type Found<'a> = Option<Vec<(&'a str, &'a str)>>;

fn skimmed(text: &str) -> Found<'_> {
    let mut found = Vec::new();
    object(text, |key, value| found.push((key, value.get()))).then_some(found)
}

/// Keys as raw values as well, so that they keep their quotes.
struct Reference<'a>(Vec<(&'a str, &'a str)>);

impl<'de> serde::Deserialize<'de> for Reference<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> serde::de::Visitor<'de> for Pairs {
            type Value = Reference<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(
                self,
                mut map: A,
            ) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                    pairs.push((key.get(), value.get()));
                }
                Ok(Reference(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

fn reference(text: &str) -> Found<'_> {
    serde_json::from_str(text)
        .ok()
        .map(|Reference(pairs)| pairs)
}

#[test]
fn seeds_are_read_as_serde_json_reads_them() {
    for text in SEEDS {
        assert!(reference(text).is_some(), "{text}");
        assert_eq!(skimmed(text), reference(text), "{text}");
    }
}

/// Each seed cut at each place, and with each bit at each place, in place of nothing or of a byte.
#[test]
fn what_is_broken_is_refused_as_serde_json_refuses_it() {
    let mut judged = BTreeMap::new();
    for seed in SEEDS {
        let places = (0..=seed.len()).filter(|at| seed.is_char_boundary(*at));
        for at in places {
            let (head, tail) = seed.split_at(at);
            let shorter: String = tail.chars().skip(1).collect();
            let put = |bit: &str, tail: &str| format!("{head}{bit}{tail}");
            let mut texts = vec![head.to_owned(), put("", &shorter)];
            for bit in BITS {
                texts.extend([put(bit, tail), put(bit, &shorter)]);
            }
            for text in texts {
                let wanted = reference(&text);
                assert_eq!(skimmed(&text), wanted, "{text:?}");
                *judged.entry(wanted.is_some()).or_insert(0) += 1;
            }
        }
    }
    assert!(
        judged[&true] > 5000 && judged[&false] > 10_000,
        "{judged:?}"
    );
}

#[test]
fn depth_ends_no_stack() {
    let deep = 1_000_000;
    let text = format!("{{\"a\":{}{}}}", "[".repeat(deep), "]".repeat(deep));
    let found = skimmed(&text).unwrap();
    assert_eq!((found.len(), found[0].1.len()), (1, 2 * deep));
    assert_eq!(skimmed(&text[..text.len() - 2]), None);
}

proptest! {
    #[test]
    fn a_plain_part_ends_at_the_first_special_byte(
        length in 0..100_usize,
        at in 0..100_usize,
        fill in any::<u8>(),
        special in prop::sample::select(vec![0_u8, 0x1f, b'"', b'\\']),
    ) {
        prop_assume!(!is_special(fill));
        let mut bytes = vec![fill; length];
        if let Some(byte) = bytes.get_mut(at) {
            *byte = special;
        }
        prop_assert_eq!(plain(&bytes), at.min(length));
    }

    #[test]
    fn any_text_is_judged_as_serde_json_judges_it(text in r#"[\{\}\[\],:"\\ \n0-9eE.+\-a-ftrunlsé]{0,40}"#) {
        let text = format!("{{\"a\":{text}}}");
        prop_assert_eq!(skimmed(&text), reference(&text));
    }
}
