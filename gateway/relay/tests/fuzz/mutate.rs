//! Small changes to a seed, drawn from numbers that are the same in every run.

/// Makes inputs out of seeds.
pub(crate) struct Mutator<'a> {
    dice: Dice,
    seeds: &'a [Vec<u8>],
}

/// Splitmix64.
pub(crate) struct Dice(u64);

/// What breaks readers of JSON, of headers and of streams.
const TOKENS: [&[u8]; 40] = [
    b"{",
    b"}",
    b"[",
    b"]",
    b"\"",
    b",",
    b":",
    b"null",
    b"true",
    b"0",
    b"-",
    b"1e999",
    b"-0",
    b"9007199254740993",
    b"\\u0000",
    b"\\ud800",
    b"\\",
    b"\n",
    b"\r",
    b"\r\n",
    b"\n\n",
    b" ",
    b"\t",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xc3",
    b"data: ",
    b"data",
    b":",
    b"event: x\n",
    b"=?base64?",
    b"?=",
    b"\"taskId\":\"x\",",
    b"\"id\":1,",
    b"\"method\":\"m\",",
    b"\"result\":{},",
    b"\"jsonrpc\":\"2.0\",",
    b"\"resultType\":\"task\",",
    b"\"name\":\"n\",",
];

// === impl Mutator ===

impl<'a> Mutator<'a> {
    pub(crate) fn new(seed: u64, seeds: &'a [Vec<u8>]) -> Self {
        Self {
            dice: Dice::new(seed),
            seeds,
        }
    }

    pub(crate) fn next(&mut self) -> Vec<u8> {
        let mut input = self.seed().clone();
        // Mostly one change: more of them seldom leave anything to be accepted.
        let changes = [1, 1, 1, 1, 2, 2, 3, 6][self.dice.below(8)];
        for _ in 0..changes {
            self.change(&mut input);
        }
        input
    }

    fn seed(&mut self) -> &'a Vec<u8> {
        &self.seeds[self.dice.below(self.seeds.len())]
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let at = self.dice.below(input.len() + 1);
        let span = at..(at + 1 + self.dice.below(12)).min(input.len());
        match self.dice.below(9) {
            0 if at < input.len() => input[at] ^= 1 << self.dice.below(8),
            1 if at < input.len() => input[at] = self.dice.byte(),
            2 => drop(input.drain(span)),
            3 => {
                let again = input[span].to_vec();
                input.splice(at..at, again);
            }
            4 | 5 => {
                let token = TOKENS[self.dice.below(TOKENS.len())];
                input.splice(at..at, token.iter().copied());
            }
            6 => self.member(input),
            7 => {
                // The end of another seed.
                let other = self.seed();
                let from = self.dice.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            _ => self.letter(input),
        }
    }

    /// A member once more, at its own level: what one reader takes first another takes last.
    fn member(&mut self, input: &mut Vec<u8>) {
        let starts: Vec<_> = (0..input.len())
            .filter(|at| matches!(input[*at], b'{' | b',') && input.get(at + 1) == Some(&b'"'))
            .collect();
        if starts.is_empty() {
            return;
        }
        let start = starts[self.dice.below(starts.len())] + 1;
        let rest = &input[start..];
        let Some(colon) = rest.iter().position(|byte| *byte == b':') else {
            return;
        };
        let mut again = rest[..=colon].to_vec();
        again.extend_from_slice([&b"1,"[..], b"null,", b"{},", b"\"x\","][self.dice.below(4)]);
        input.splice(start..start, again);
    }

    /// One letter in the other case, or as an escape.
    fn letter(&mut self, input: &mut Vec<u8>) {
        let letters: Vec<_> = (0..input.len())
            .filter(|at| input[*at].is_ascii_alphabetic())
            .collect();
        if letters.is_empty() {
            return;
        }
        let at = letters[self.dice.below(letters.len())];
        if self.dice.below(2) == 0 {
            input[at] ^= 0x20;
        } else {
            let escape = format!("\\u00{:02x}", input[at]);
            input.splice(at..=at, escape.into_bytes());
        }
    }
}

// === impl Dice ===

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.draw() % bound as u64).unwrap()
    }

    fn byte(&mut self) -> u8 {
        self.draw().to_le_bytes()[0]
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
