//! One object level of a text, found in a single pass over its bytes.
//!
//! What `serde_json` takes for a raw value is taken for one here, byte for byte, in a third of the time on
//! long strings: a result of 1 MB is looked into several times on its way.

use std::ops::Range;

use serde::Deserialize as _;
use serde::de::value::{BorrowedStrDeserializer, Error, MapDeserializer};
use serde_json::value::RawValue;

/// Where reading goes on.
struct Scan<'a> {
    text: &'a str,
    at: usize,
}

/// By this key `serde_json` knows a text that is a raw value already.
const TOKEN: &str = "$serde_json::private::RawValue";
/// Bytes that are looked at together.
const BLOCK: usize = 64;
const WORD: usize = size_of::<u64>();

/// Hands over each member of the object that the text is: its key with the quotes, and its value. False:
/// the text is no object, or no JSON.
///
/// Guarantees: values are valid JSON (RFC 8259), however deep; keys are valid strings but for escaped
/// surrogates, which whoever unescapes them has to judge.
pub(super) fn object<'a>(text: &'a str, each: impl FnMut(&'a str, &'a RawValue)) -> bool {
    Scan { text, at: 0 }.object(each).is_some()
}

/// A raw value over a text that is one already.
fn raw(text: &str) -> Option<&RawValue> {
    let value = BorrowedStrDeserializer::<Error>::new(text);
    let map = MapDeserializer::new(std::iter::once((TOKEN, value)));
    <&RawValue>::deserialize(map).ok()
}

// === impl Scan ===

impl<'a> Scan<'a> {
    fn object(&mut self, mut each: impl FnMut(&'a str, &'a RawValue)) -> Option<()> {
        self.space();
        self.expect(b'{')?;
        self.space();
        let mut goes_on = self.expect(b'}').is_none();
        while goes_on {
            let key = self.part(Self::string)?;
            self.colon()?;
            let value = raw(self.part(Self::value)?)?;
            each(key, value);
            self.space();
            goes_on = match self.next()? {
                b',' => true,
                b'}' => false,
                _ => return None,
            };
            self.space();
        }
        self.space();
        (self.at == self.text.len()).then_some(())
    }

    /// What `read` reads.
    fn part(&mut self, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<&'a str> {
        let start = self.at;
        read(self)?;
        self.text.get(Range {
            start,
            end: self.at,
        })
    }

    /// One value; nesting is kept in a list, so that no depth ends the stack.
    fn value(&mut self) -> Option<()> {
        let mut open = Vec::new();
        loop {
            match self.peek()? {
                byte @ (b'{' | b'[') => {
                    let close = if byte == b'{' { b'}' } else { b']' };
                    self.at += 1;
                    self.space();
                    if self.expect(close).is_none() {
                        open.push(close);
                        if close == b'}' {
                            self.key()?;
                        }
                        continue;
                    }
                }
                b'"' => self.string()?,
                b't' => self.word("true")?,
                b'f' => self.word("false")?,
                b'n' => self.word("null")?,
                _ => self.number()?,
            }
            loop {
                let Some(close) = open.last().copied() else {
                    return Some(());
                };
                self.space();
                match self.next()? {
                    b',' => {
                        self.space();
                        if close == b'}' {
                            self.key()?;
                        }
                        break;
                    }
                    byte if byte == close => {
                        open.pop();
                    }
                    _ => return None,
                }
            }
        }
    }

    fn key(&mut self) -> Option<()> {
        self.string()?;
        self.colon()
    }

    fn colon(&mut self) -> Option<()> {
        self.space();
        self.expect(b':')?;
        self.space();
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        self.expect(b'"')?;
        loop {
            self.at += plain(self.rest());
            match self.next()? {
                b'"' => return Some(()),
                b'\\' => self.escape()?,
                _ => return None,
            }
        }
    }

    fn escape(&mut self) -> Option<()> {
        match self.next()? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Some(()),
            b'u' => {
                let digits = self.rest().get(..4)?;
                self.at += 4;
                digits.iter().all(u8::is_ascii_hexdigit).then_some(())
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<()> {
        self.expect(b'-');
        match self.next()? {
            b'0' => {}
            b'1'..=b'9' => {
                self.digits();
            }
            _ => return None,
        }
        if self.expect(b'.').is_some() && self.digits() == 0 {
            return None;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return None;
            }
        }
        Some(())
    }

    fn digits(&mut self) -> usize {
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit());
        let count = digits.count();
        self.at += count;
        count
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.rest().starts_with(word.as_bytes()).then_some(())?;
        self.at += word.len();
        Some(())
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then_some(())?;
        self.at += 1;
        Some(())
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }
}

/// How many bytes come before one that a string cannot hold as it is.
fn plain(bytes: &[u8]) -> usize {
    // All of a block, with no way out in the middle: that takes a few instructions.
    let special = |any, byte: &u8| any | u8::from(is_special(*byte));
    let is_plain = |block: &&[u8; BLOCK]| block.iter().fold(0, special) == 0;
    let (blocks, _) = bytes.as_chunks();
    let blocks = blocks.iter().take_while(is_plain).count();
    let start = blocks * BLOCK;
    let rest = bytes.get(start..).unwrap_or_default();
    let (words, tail) = rest.as_chunks::<WORD>();
    for (index, word) in words.iter().enumerate() {
        let found = specials(u64::from_le_bytes(*word));
        if found != 0 {
            return start + index * WORD + found.trailing_zeros() as usize / 8;
        }
    }
    let last = tail.iter().take_while(|byte| !is_special(**byte)).count();
    start + words.len() * WORD + last
}

fn is_special(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// The high bit of the first special byte of eight, the first being the lowest; above it anything.
fn specials(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES << 7;
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = zero(word ^ (ONES * u64::from(b'"')));
    let escape = zero(word ^ (ONES * u64::from(b'\\')));
    (control | quote | escape) & HIGH
}

#[cfg(test)]
mod tests;
