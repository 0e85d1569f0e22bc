//! How words sound: the primary code of Lawrence Philips' Double Metaphone (C/C++ Users Journal, June 2000),
//! of at most four letters, as RediSearch indexes it with `<` before it.
//!
//! A word's code depends on its letters of ASCII; other bytes have no sound.

/// The byte before a code.
pub const PHONETIC_PREFIX: u8 = b'<';
/// A shorter word of a text has no code (RediSearch: `MINPHONETICTERMLEN`).
pub const PHONETIC_MIN_BYTES: usize = 3;
/// Letters of a code.
const CODE_MAX: usize = 4;

/// The code of a word, with its prefix; none if the word has no sound.
pub fn code_of(word: &[u8]) -> Option<Vec<u8>> {
    let mut coder =
        Coder { word: word.to_ascii_uppercase(), at: 0, code: vec![PHONETIC_PREFIX], is_slavic: false };
    coder.is_slavic = coder.contains(b"W") || coder.contains(b"K") || coder.contains(b"CZ");
    coder.run();
    coder.code.truncate(1 + CODE_MAX);
    (coder.code.len() > 1).then_some(coder.code)
}

struct Coder {
    /// In capitals.
    word: Vec<u8>,
    at: usize,
    code: Vec<u8>,
    /// Whether it looks Slavic or Germanic.
    is_slavic: bool,
}

impl Coder {
    fn contains(&self, part: &[u8]) -> bool {
        self.word.windows(part.len()).any(|window| window == part)
    }

    /// The byte at an offset from the place; spaces surround a word.
    fn byte(&self, offset: isize) -> u8 {
        let place = self.at.checked_add_signed(offset);
        place.and_then(|place| self.word.get(place)).copied().unwrap_or(b' ')
    }

    /// Whether one of `parts` stands at an offset from the place.
    fn has(&self, offset: isize, parts: &[&[u8]]) -> bool {
        let Some(start) = self.at.checked_add_signed(offset) else { return false };
        parts.iter().any(|part| {
            let mut bytes = (start..start + part.len()).map(|place| self.word.get(place).unwrap_or(&b' '));
            part.iter().all(|byte| bytes.next() == Some(byte))
        })
    }

    /// Whether the byte at an offset is one of these.
    fn is(&self, offset: isize, bytes: &[u8]) -> bool {
        self.at.checked_add_signed(offset).is_some() && bytes.contains(&self.byte(offset))
    }

    fn begins(&self, parts: &[&[u8]]) -> bool {
        parts.iter().any(|part| self.word.starts_with(part))
    }

    fn is_vowel(&self, offset: isize) -> bool {
        self.is(offset, b"AEIOUY")
    }

    fn is_last(&self) -> bool {
        self.at + 1 == self.word.len()
    }

    /// Names of Dutch and German origin.
    fn is_germanic(&self) -> bool {
        self.begins(&[b"VAN ", b"VON ", b"SCH"])
    }

    /// Adds to the code and steps.
    fn add(&mut self, code: &[u8], step: usize) {
        self.code.extend_from_slice(code);
        self.at += step;
    }

    /// Adds to the code and steps, over both of a doubled letter.
    fn add_once(&mut self, code: &[u8], doubles: &[u8]) {
        let step = if self.is(1, doubles) { 2 } else { 1 };
        self.add(code, step);
    }

    fn run(&mut self) {
        if self.begins(&[b"GN", b"KN", b"PN", b"WR", b"PS"]) {
            self.at = 1;
        } else if self.begins(&[b"X"]) {
            self.add(b"S", 1);
        }
        while self.at < self.word.len() && self.code.len() <= CODE_MAX {
            self.letter();
        }
    }

    fn letter(&mut self) {
        match self.byte(0) {
            b'A' | b'E' | b'I' | b'O' | b'U' | b'Y' => self.add(if self.at == 0 { b"A" } else { b"" }, 1),
            b'B' => self.add_once(b"P", b"B"),
            // Latin-1's C with cedilla and N with tilde, which the algorithm knows.
            0xc7 => self.add(b"S", 1),
            0xd1 => self.add(b"N", 1),
            b'C' => self.c(),
            b'D' => self.d(),
            b'F' => self.add_once(b"F", b"F"),
            b'G' => self.g(),
            b'H' => self.h(),
            b'J' => self.j(),
            b'K' => self.add_once(b"K", b"K"),
            b'L' => self.add_once(b"L", b"L"),
            b'M' => self.m(),
            b'N' => self.add_once(b"N", b"N"),
            b'P' if self.byte(1) == b'H' => self.add(b"F", 2),
            b'P' => self.add_once(b"P", b"PB"),
            b'Q' => self.add_once(b"K", b"Q"),
            b'R' => self.r(),
            b'S' => self.s(),
            b'T' => self.t(),
            b'V' => self.add_once(b"F", b"V"),
            b'W' => self.w(),
            b'X' => self.x(),
            b'Z' if self.byte(1) == b'H' => self.add(b"J", 2),
            b'Z' => self.add_once(b"S", b"Z"),
            _ => self.at += 1,
        }
    }

    fn c(&mut self) {
        let is_german_ach = self.at > 1
            && !self.is_vowel(-2)
            && self.has(-1, &[b"ACH"])
            && self.byte(2) != b'I'
            && (self.byte(2) != b'E' || self.has(-2, &[b"BACHER", b"MACHER"]));
        if is_german_ach || self.has(0, &[b"CHIA"]) {
            self.add(b"K", 2);
        } else if self.at == 0 && self.has(0, &[b"CAESAR"]) {
            self.add(b"S", 2);
        } else if self.byte(1) == b'H' {
            let code = self.ch();
            self.add(code, 2);
        } else if self.byte(1) == b'Z' && !self.has(-2, &[b"WICZ"]) {
            self.add(b"S", 2);
        } else if self.has(1, &[b"CIA"]) {
            self.add(b"X", 3);
        } else if self.byte(1) == b'C' && !(self.at == 1 && self.word[0] == b'M') {
            self.cc();
        } else if self.is(1, b"KGQ") {
            self.add(b"K", 2);
        } else if self.is(1, b"IEY") {
            self.add(b"S", 2);
        } else if self.has(1, &[b" C", b" Q", b" G"]) {
            self.add(b"K", 3);
        } else if self.is(1, b"CKQ") && !self.has(1, &[b"CE", b"CI"]) {
            self.add(b"K", 2);
        } else {
            self.add(b"K", 1);
        }
    }

    fn ch(&self) -> &'static [u8] {
        let is_start = self.at == 0;
        let is_greek = is_start
            && self.has(1, &[b"HARAC", b"HARIS", b"HOR", b"HYM", b"HIA", b"HEM"])
            && !self.begins(&[b"CHORE"]);
        let is_hard = self.is_germanic()
            || self.has(-2, &[b"ORCHES", b"ARCHIT", b"ORCHID"])
            || self.is(2, b"TS")
            || ((is_start || self.is(-1, b"AOUE")) && self.is(2, b"LRNMBHFVW "));
        match () {
            () if !is_start && self.has(0, &[b"CHAE"]) => b"K",
            () if is_greek || is_hard => b"K",
            () if !is_start && self.begins(&[b"MC"]) => b"K",
            () => b"X",
        }
    }

    fn cc(&mut self) {
        if !self.is(2, b"IEH") || self.has(2, &[b"HU"]) {
            self.add(b"K", 2);
        } else if (self.at == 1 && self.byte(-1) == b'A') || self.has(-1, &[b"UCCEE", b"UCCES"]) {
            self.add(b"KS", 3);
        } else {
            self.add(b"X", 3);
        }
    }

    fn d(&mut self) {
        match self.byte(1) {
            b'G' if self.is(2, b"IEY") => self.add(b"J", 3),
            b'G' => self.add(b"TK", 2),
            b'T' | b'D' => self.add(b"T", 2),
            _ => self.add(b"T", 1),
        }
    }

    fn g(&mut self) {
        let next = self.byte(1);
        if next == b'H' {
            let code = self.gh();
            self.add(code, 2);
        } else if next == b'N' {
            let is_after_vowel = self.at == 1 && self.is_vowel(-1) && !self.is_slavic;
            let is_soft = !is_after_vowel && !self.has(2, &[b"EY"]) && !self.is_slavic;
            self.add(if is_soft { b"N" } else { b"KN" }, 2);
        } else if self.has(1, &[b"LI"]) && !self.is_slavic {
            self.add(b"KL", 2);
        } else if self.is_hard_g() {
            self.add(b"K", 2);
        } else if self.is(1, b"EIY") || self.has(-1, &[b"AGGI", b"OGGI"]) {
            let is_hard = self.is_germanic() || self.has(1, &[b"ET"]);
            self.add(if is_hard { b"K" } else { b"J" }, 2);
        } else {
            self.add_once(b"K", b"G");
        }
    }

    fn is_hard_g(&self) -> bool {
        let hard: [&[u8]; 11] = [b"ES", b"EP", b"EB", b"EL", b"EY", b"IB", b"IL", b"IN", b"IE", b"EI", b"ER"];
        if self.at == 0 && (self.byte(1) == b'Y' || self.has(1, &hard)) {
            return true;
        }
        (self.has(1, &[b"ER"]) || self.byte(1) == b'Y')
            && !self.begins(&[b"DANGER", b"RANGER", b"MANGER"])
            && !self.is(-1, b"EI")
            && !self.has(-1, &[b"RGY", b"OGY"])
    }

    fn gh(&self) -> &'static [u8] {
        if self.at > 0 && !self.is_vowel(-1) {
            return b"K";
        }
        if self.at == 0 {
            return if self.byte(2) == b'I' { b"J" } else { b"K" };
        }
        let is_silent = (self.at > 1 && self.is(-2, b"BHD"))
            || (self.at > 2 && self.is(-3, b"BHD"))
            || (self.at > 3 && self.is(-4, b"BH"));
        match () {
            () if is_silent => b"",
            () if self.at > 2 && self.byte(-1) == b'U' && self.is(-3, b"CGLRT") => b"F",
            () if self.byte(-1) != b'I' => b"K",
            () => b"",
        }
    }

    fn h(&mut self) {
        if (self.at == 0 || self.is_vowel(-1)) && self.is_vowel(1) {
            self.add(b"H", 2);
        } else {
            self.at += 1;
        }
    }

    fn j(&mut self) {
        if self.has(0, &[b"JOSE"]) || self.begins(&[b"SAN "]) {
            let is_spanish = (self.at == 0 && self.byte(4) == b' ') || self.begins(&[b"SAN "]);
            return self.add(if is_spanish { b"H" } else { b"J" }, 1);
        }
        let is_spoken = self.at == 0
            || (self.is_vowel(-1) && !self.is_slavic && self.is(1, b"AO"))
            || self.is_last()
            || (!self.is(1, b"LTKSNMBZ") && !self.is(-1, b"SKL"));
        self.add_once(if is_spoken { b"J" } else { b"" }, b"J");
    }

    fn m(&mut self) {
        let is_umb = self.has(-1, &[b"UMB"]) && (self.at + 2 == self.word.len() || self.has(2, &[b"ER"]));
        self.add(b"M", if is_umb || self.byte(1) == b'M' { 2 } else { 1 });
    }

    fn r(&mut self) {
        let is_french =
            self.is_last() && !self.is_slavic && self.has(-2, &[b"IE"]) && !self.has(-4, &[b"ME", b"MA"]);
        self.add_once(if is_french { b"" } else { b"R" }, b"R");
    }

    fn s(&mut self) {
        if self.has(-1, &[b"ISL", b"YSL"]) {
            self.at += 1;
        } else if self.at == 0 && self.has(0, &[b"SUGAR"]) {
            self.add(b"X", 1);
        } else if self.byte(1) == b'H' {
            let is_german = self.has(1, &[b"HEIM", b"HOEK", b"HOLM", b"HOLZ"]);
            self.add(if is_german { b"S" } else { b"X" }, 2);
        } else if self.has(0, &[b"SIO", b"SIA"]) {
            self.add(b"S", 3);
        } else if (self.at == 0 && self.is(1, b"MNLW")) || self.byte(1) == b'Z' {
            self.add_once(b"S", b"Z");
        } else if self.byte(1) == b'C' {
            let code = self.sc();
            self.add(code, 3);
        } else {
            let is_french = self.is_last() && self.has(-2, &[b"AI", b"OI"]);
            self.add_once(if is_french { b"" } else { b"S" }, b"SZ");
        }
    }

    fn sc(&self) -> &'static [u8] {
        if self.byte(2) == b'H' {
            let is_dutch = self.has(3, &[b"OO", b"UY", b"ED", b"EM"]);
            return if is_dutch { b"SK" } else { b"X" };
        }
        if self.is(2, b"IEY") { b"S" } else { b"SK" }
    }

    fn t(&mut self) {
        if self.has(0, &[b"TION", b"TIA", b"TCH"]) {
            self.add(b"X", 3);
        } else if self.has(0, &[b"TH", b"TTH"]) {
            let is_hard = self.has(2, &[b"OM", b"AM"]) || self.is_germanic();
            self.add(if is_hard { b"T" } else { b"0" }, 2);
        } else {
            self.add_once(b"T", b"TD");
        }
    }

    fn w(&mut self) {
        if self.byte(1) == b'R' {
            return self.add(b"R", 2);
        }
        if self.at == 0 && (self.is_vowel(1) || self.byte(1) == b'H') {
            self.code.push(b'A');
        }
        let is_silent = (self.is_last() && self.is_vowel(-1))
            || self.has(-1, &[b"EWSKI", b"EWSKY", b"OWSKI", b"OWSKY"])
            || self.begins(&[b"SCH"]);
        if !is_silent && self.has(0, &[b"WICZ", b"WITZ"]) {
            return self.add(b"TS", 4);
        }
        self.at += 1;
    }

    fn x(&mut self) {
        let is_french = self.is_last() && (self.has(-3, &[b"IAU", b"EAU"]) || self.has(-2, &[b"AU", b"OU"]));
        self.add_once(if is_french { b"" } else { b"KS" }, b"CX");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_redisearch() {
        // FT.EXPLAIN of RediSearch 2.10.5.
        for (word, code) in [("running", "<RNNK"), ("dogs", "<TKS"), ("hello", "<HL")] {
            assert_eq!(code_of(word.as_bytes()).as_deref(), Some(code.as_bytes()), "{word}");
        }
        assert_eq!(code_of(b"12"), None);
        assert_eq!(code_of(b""), None);
    }
}
