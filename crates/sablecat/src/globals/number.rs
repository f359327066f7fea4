//! Numbers as M has them: decimal, of eighteen digits.

use std::fmt;

use crate::error::{Error, Result};

/// Digits that a number has at most, without zeros at its ends.
const DIGITS: u32 = 18;
/// One more than the largest number of that many digits.
const LIMIT: u64 = 10u64.pow(DIGITS);
/// Numbers are below ten to this power.
const TOP: i32 = 47;
/// What is smaller than ten to this power is zero.
const BOTTOM: i32 = -43;

/// The longest text of a number: a sign, a point, zeros down to the smallest digit, and the digits from there
/// on. One without a point is shorter.
const TEXT_BYTES_MAX: usize = 1 + 1 + (-BOTTOM - 1) as usize + DIGITS as usize;

/// A decimal number of at most eighteen digits, from 1E-43 to just below 1E47, or zero: what M computes with.
///
/// What takes more digits is cut off, not rounded.
///
/// ```
/// use sablecat::globals::Number;
///
/// assert_eq!(Number::of_text(b"3 apples").to_string(), "3");
/// assert_eq!(Number::of_text(b"-0.50").to_string(), "-.5");
/// assert!(Number::from(9) < Number::from(10));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Number {
    negative: bool,
    /// Not a multiple of ten, or zero; below [`LIMIT`].
    digits: u64,
    /// Of ten, by which the digits are multiplied. Zero for zero.
    exponent: i32,
}

impl Number {
    /// Zero.
    pub const ZERO: Number = Number { negative: false, digits: 0, exponent: 0 };

    /// The number that is `digits` times ten to the power of `exponent`, cut to eighteen digits.
    ///
    /// # Errors
    /// `Invalid` if it is 1E47 or more, or -1E47 or less.
    fn new(negative: bool, mut digits: u128, mut exponent: i64) -> Result<Number> {
        while digits >= u128::from(LIMIT) || (digits > 0 && digits.is_multiple_of(10)) {
            digits /= 10;
            exponent += 1;
        }
        let magnitude = exponent + i64::from(digits.checked_ilog10().unwrap_or(0));
        if digits == 0 || magnitude < i64::from(BOTTOM) {
            return Ok(Number::ZERO);
        }
        if magnitude >= i64::from(TOP) {
            return Err(Error::invalid(format!(
                "a number of {} digits before its point: there may be {TOP}",
                magnitude + 1
            )));
        }
        Ok(Number { negative, digits: digits as u64, exponent: exponent as i32 })
    }

    /// What a text is as a number: that of its beginning which can be read as one, so 0 for one that begins
    /// otherwise. Signs, digits with a point, and an exponent after `E`. A number that is too large is the
    /// largest there is.
    #[must_use]
    pub fn of_text(text: &[u8]) -> Number {
        let signs = text.iter().take_while(|byte| matches!(byte, b'+' | b'-')).count();
        let negative = text[..signs].iter().filter(|byte| **byte == b'-').count() % 2 == 1;
        let mut rest = &text[signs..];
        let (mut digits, mut exponent, mut any, mut after_point) = (0u128, 0i64, false, false);
        while let Some((&byte, next)) = rest.split_first() {
            match byte {
                b'0'..=b'9' => {
                    any = true;
                    if digits < u128::from(LIMIT) {
                        digits = digits * 10 + u128::from(byte - b'0');
                        exponent -= i64::from(after_point);
                    } else {
                        // Too many digits: what they stand for is cut off, but not the places they take.
                        exponent += i64::from(!after_point);
                    }
                }
                b'.' if !after_point => after_point = true,
                _ => break,
            }
            rest = next;
        }
        if any && let Some((b'E', power)) = rest.split_first().map(|(&first, power)| (first, power)) {
            exponent += exponent_of(power);
        }
        Number::new(negative, digits, exponent).unwrap_or(Number {
            negative,
            digits: LIMIT - 1,
            exponent: TOP - DIGITS as i32,
        })
    }

    /// The number that a text is when it is written just as M writes that number: such a text sorts as a
    /// number, all others as texts.
    #[must_use]
    pub fn canonical(text: &[u8]) -> Option<Number> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let number = Number::of_text(text);
        (number.to_string().as_bytes() == text).then_some(number)
    }

    /// The sum, cut to eighteen digits.
    ///
    /// # Errors
    /// `Invalid` if it is too large for a number.
    pub fn plus(self, other: Number) -> Result<Number> {
        let (high, low) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        if high.digits == 0 || low.digits == 0 {
            return Ok(if high.digits == 0 { low } else { high });
        }
        // With nineteen places more than it has digits, what is below the last of them cannot be seen.
        let apart = high.exponent - low.exponent;
        let shift = apart.min(19);
        let signed = |number: Number, digits: i128| if number.negative { -digits } else { digits };
        let upper = signed(high, i128::from(high.digits) * 10i128.pow(shift as u32));
        let scale = 10u128.pow((apart - shift).min(38) as u32);
        let (whole, cut) = (u128::from(low.digits) / scale, u128::from(low.digits) % scale);
        let sum = upper + signed(low, whole as i128);
        // What was cut off of the lower one takes the sum below the next digit, if the signs differ.
        let sum =
            if cut != 0 && high.negative != low.negative && sum != 0 { sum - sum.signum() } else { sum };
        Number::new(sum < 0, sum.unsigned_abs(), i64::from(high.exponent - shift))
    }

    /// The number as one of this type, if it is whole and in its range.
    #[must_use]
    pub fn to_i64(self) -> Option<i64> {
        let power = u32::try_from(self.exponent).ok()?;
        let absolute = i64::try_from(self.digits).ok()?.checked_mul(10i64.checked_pow(power)?)?;
        Some(if self.negative { -absolute } else { absolute })
    }

    /// The power of ten of its first digit's place, plus one: it is .ddd times ten to this power.
    fn magnitude(self) -> i32 {
        self.exponent + self.digits.checked_ilog10().unwrap_or(0) as i32 + 1
    }

    /// Writes it so that bytes sort as numbers do: one byte for the sign, one for the magnitude, one for each
    /// two digits, and one that ends them.
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        if self.digits == 0 {
            return out.push(ZERO);
        }
        out.push(if self.negative { NEGATIVE } else { POSITIVE });
        let turned = |byte: u8| if self.negative { !byte } else { byte };
        out.push(turned((self.magnitude() + MAGNITUDE_ZERO) as u8));
        // The digits as a fraction of LIMIT, so that they begin at the point.
        let mut left = self.digits * 10u64.pow(DIGITS - 1 - self.digits.ilog10());
        while left > 0 {
            out.push(turned((left / PAIR) as u8 + 1));
            left = left % PAIR * 100;
        }
        out.push(turned(0));
    }

    /// Reads what [`Number::encode`] has written; `bytes` is left with what comes after it. None if it is
    /// something else.
    pub(super) fn decode(bytes: &mut &[u8]) -> Option<Number> {
        let mut next = || {
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            Some(byte)
        };
        let negative = match next()? {
            ZERO => return Some(Number::ZERO),
            NEGATIVE => true,
            POSITIVE => false,
            _ => return None,
        };
        let turned = |byte: u8| if negative { !byte } else { byte };
        let magnitude = i64::from(turned(next()?)) - i64::from(MAGNITUDE_ZERO);
        let (mut digits, mut places) = (0u128, 0);
        loop {
            match turned(next()?) {
                0 => break,
                pair @ 1..=100 if places < i64::from(DIGITS) => {
                    digits = digits * 100 + u128::from(pair - 1);
                    places += 2;
                }
                _ => return None,
            }
        }
        let number = Number::new(negative, digits, magnitude - places).ok()?;
        // Anything but what would be written for it is no number.
        (number.digits != 0 && i64::from(number.magnitude()) == magnitude).then_some(number)
    }
}

/// The bytes that begin a number.
pub(super) const NEGATIVE: u8 = 0x02;
pub(super) const ZERO: u8 = 0x03;
pub(super) const POSITIVE: u8 = 0x04;
/// What a magnitude of zero is written as.
const MAGNITUDE_ZERO: i32 = 128;
/// What two digits are parts of.
const PAIR: u64 = LIMIT / 100;

/// The power of ten that stands after `E`, as far as it can be read; 0 if it cannot.
fn exponent_of(text: &[u8]) -> i64 {
    let (negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        Some((b'+', digits)) => (false, digits),
        _ => (false, text),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    // Far more than any number has, and far less than could overflow.
    let power = digits.fold(0i64, |power, &byte| (power * 10 + i64::from(byte - b'0')).min(1 << 20));
    if negative { -power } else { power }
}

/// By value.
impl Ord for Number {
    fn cmp(&self, other: &Number) -> std::cmp::Ordering {
        let bytes = |number: &Number| {
            let mut bytes = Vec::with_capacity(12);
            number.encode(&mut bytes);
            bytes
        };
        bytes(self).cmp(&bytes(other))
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

macro_rules! from_integers {
    ($($integer:ty)*) => {$(
        /// Cut to eighteen digits.
        impl From<$integer> for Number {
            fn from(integer: $integer) -> Number {
                #[allow(unused_comparisons, reason = "one body for integers with a sign and without")]
                let negative = integer < 0;
                Number::new(negative, (integer as i128).unsigned_abs(), 0)
                    .expect("an integer of sixty-four bits is below 1E47")
            }
        }
    )*};
}

from_integers!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

/// As M writes it: all digits, a point only before what is not whole, no zero before it.
impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.digits.to_string();
        if self.negative {
            f.write_str("-")?;
        }
        let magnitude = self.magnitude();
        if self.exponent >= 0 {
            write!(f, "{digits}{:0<1$}", "", self.exponent as usize)
        } else if magnitude > 0 {
            let (whole, part) = digits.split_at(magnitude as usize);
            write!(f, "{whole}.{part}")
        } else {
            write!(f, ".{:0<1$}{digits}", "", -magnitude as usize)
        }
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
