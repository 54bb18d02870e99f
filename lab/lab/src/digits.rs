//! Numbers as text, without allocation.

/// A number in decimal. It does not allocate, since it is formatted once per event.
#[derive(Debug, Default)]
pub(crate) struct Digits([u8; 10]);

impl Digits {
    pub(crate) fn format(&mut self, mut number: u32) -> &str {
        let mut start = self.0.len();
        loop {
            start -= 1;
            self.0[start] = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
            if number == 0 {
                // Digits are ASCII, so this is never the empty text.
                return std::str::from_utf8(&self.0[start..]).unwrap_or_default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_those_of_the_number() {
        let mut digits = Digits::default();
        for number in [0, 9, 10, 4_294_967_295, 1_234_567_890, 7] {
            assert_eq!(digits.format(number), number.to_string());
        }
    }
}
