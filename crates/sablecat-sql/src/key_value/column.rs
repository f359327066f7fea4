//! What the columns of a key are made of, and which keys a condition on one of them leaves.
//!
//! A key of several columns is the bytes of each, one after the other, in an order that is that of the values
//! ([tuples](sablecat::tuple), [globals](sablecat::globals)). So a condition on a column is a place among the
//! bytes that it can have: before those of a value, or behind them and all that goes on from there. What a
//! condition leaves may be more than what meets it, never less: SQLite looks at it once more.

use sablecat::globals::{self, Number, Subscript};
use sablecat::tuple::{self, Element, Integer, Uuid};

use crate::record::Value;

/// What a column of a key is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Elements of a tuple.
    Integer,
    Real,
    Text,
    Blob,
    Boolean,
    Uuid,
    /// The name of a global.
    Name,
    /// A subscript: a number or a text.
    Subscript,
    /// A number of eight bytes, the most significant first.
    Number,
    /// A text that is the whole key,
    WholeText,
    /// and bytes that are.
    WholeBlob,
}

/// A value that was read out of a key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    Null,
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl Part {
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Part::Null => Value::Null,
            Part::Integer(integer) => Value::Integer(*integer),
            Part::Real(real) => Value::Real(*real),
            Part::Text(text) => Value::Text(text),
            Part::Blob(blob) => Value::Blob(blob, 0),
        }
    }
}

/// A place among the bytes that a column can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) bytes: Vec<u8>,
    /// Behind these and all that goes on from there; else before them.
    pub(crate) behind: bool,
}

/// What a condition leaves on its side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    All,
    Nothing,
    At(At),
}

/// The side from which a condition bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Lower,
    Upper,
}

/// What has a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Equal {
    Nothing,
    /// Keys with these bytes in the column.
    One(Vec<u8>),
    /// Keys between two places.
    Between(At, At),
}

impl Side {
    /// What a bound leaves whose value is above all that the column has.
    fn of_above(self) -> Limit {
        if self == Side::Upper { Limit::All } else { Limit::Nothing }
    }

    /// What one leaves whose value is below all of that.
    fn of_below(self) -> Limit {
        if self == Side::Lower { Limit::All } else { Limit::Nothing }
    }
}

fn before(bytes: Vec<u8>) -> Limit {
    Limit::At(At { bytes, behind: false })
}

fn behind(bytes: Vec<u8>) -> Limit {
    Limit::At(At { bytes, behind: true })
}

/// The place of a bound that is a value of the column: `beyond` leaves that value out.
fn at(bytes: Vec<u8>, side: Side, beyond: bool) -> Limit {
    Limit::At(At { bytes, behind: beyond == (side == Side::Lower) })
}

/// One element of a tuple.
fn packed(element: Element) -> Vec<u8> {
    tuple::pack(&(element,))
}

fn boolean(value: bool) -> Vec<u8> {
    packed(Element::Bool(value))
}

/// An identifier that begins with these bytes, as far as it can: none smaller does.
fn uuid(bytes: &[u8]) -> Uuid {
    let mut whole = [0; 16];
    let len = bytes.len().min(whole.len());
    whole[..len].copy_from_slice(&bytes[..len]);
    Uuid(whole)
}

/// Where integers are: those up to a real, which may be none of them.
enum Floor {
    Below,
    Integer { floor: i64, is_exact: bool },
    Above,
}

fn floor(real: f64) -> Floor {
    /// The first real above all integers of 64 bits.
    const ABOVE: f64 = 9_223_372_036_854_775_808.0;
    if real < -ABOVE {
        Floor::Below
    } else if real >= ABOVE {
        Floor::Above
    } else {
        Floor::Integer { floor: real.floor() as i64, is_exact: real.floor() == real }
    }
}

/// The integer that a real is, if it is one.
pub(super) fn exact(real: f64) -> Option<i64> {
    match floor(real) {
        Floor::Integer { floor, is_exact: true } => Some(floor),
        _ => None,
    }
}

/// The number that M has for a real: that of its shortest decimal text, as nearly as M can have it, or, of an
/// integer, that.
fn number_of(real: f64) -> Number {
    match exact(real) {
        Some(integer) => Number::from(integer),
        // It is not written with a power of ten.
        None => Number::of_text(real.to_string().as_bytes()),
    }
}

/// A real that M can have as a number, from which SQL would make the same real.
fn number_for(real: f64) -> Option<Number> {
    let number = number_of(real);
    (number.to_string().parse() == Ok(real)).then_some(number)
}

/// What SQL sees of a number of M's: an integer, a real that leads back to it, or else its text.
fn shown(number: Number) -> Part {
    if let Some(integer) = number.to_i64() {
        return Part::Integer(integer);
    }
    let text = number.to_string();
    match text.parse() {
        Ok(real) if number_for(real) == Some(number) => Part::Real(real),
        _ => Part::Text(text.into_bytes()),
    }
}

/// The bytes of a subscript.
fn subscript(subscript: impl Into<Subscript<'static>>) -> Vec<u8> {
    subscript.into().key_bytes()
}

/// The key of a global, if it can have this name.
fn global(name: &[u8]) -> Option<Vec<u8>> {
    let key = [name, &[0]].concat();
    let is_one =
        globals::parts(&key).is_ok_and(|(read, subscripts)| read.as_bytes() == name && subscripts.is_empty());
    is_one.then_some(key)
}

impl Kind {
    /// The type by which SQL knows the column; none for one that takes whatever there is.
    pub(crate) fn declared(self) -> &'static str {
        match self {
            Kind::Integer | Kind::Boolean | Kind::Number => "INTEGER",
            Kind::Real => "REAL",
            Kind::Text | Kind::Name | Kind::WholeText => "TEXT",
            Kind::Blob | Kind::Uuid | Kind::WholeBlob => "BLOB",
            Kind::Subscript => "",
        }
    }

    /// Whether keys are in the order that SQL has for the values of the column.
    pub(crate) fn sorts(self) -> bool {
        self != Kind::Subscript
    }

    /// Whether different bytes are different values to SQL.
    pub(crate) fn is_exact(self) -> bool {
        !matches!(self, Kind::Real | Kind::Subscript)
    }

    /// The bytes of a value that is to be set. An error says what the column takes.
    pub(crate) fn encode(self, value: Value<'_>) -> Result<Vec<u8>, &'static str> {
        let wanted = match self {
            Kind::Integer => "integers",
            Kind::Real => "reals",
            Kind::Text | Kind::WholeText => "text",
            Kind::Blob | Kind::WholeBlob => "blobs",
            Kind::Boolean => "0 and 1",
            Kind::Uuid => "blobs of 16 bytes",
            Kind::Name => "names of globals: a letter or % first, then letters and digits, 31 at most",
            Kind::Subscript => "numbers, of 18 digits at most, and text",
            Kind::Number => "integers above 0",
        };
        let integer = match value {
            Value::Integer(integer) => Some(integer),
            Value::Real(real) => exact(real),
            _ => None,
        };
        let bytes = match (self, value) {
            (
                Kind::Integer | Kind::Real | Kind::Text | Kind::Blob | Kind::Boolean | Kind::Uuid,
                Value::Null,
            ) => Some(packed(Element::Null)),
            (Kind::Integer, _) => integer.map(|integer| packed(Element::Integer(integer.into()))),
            (Kind::Real, Value::Integer(integer)) => Some(packed(Element::Double(integer as f64))),
            (Kind::Real, Value::Real(real)) => Some(packed(Element::Double(real))),
            (Kind::Text, Value::Text(text)) => {
                String::from_utf8(text.to_vec()).ok().map(|text| packed(Element::Text(text)))
            }
            (Kind::Blob, Value::Blob(blob, _)) => Some(packed(Element::Bytes(blob.to_vec()))),
            (Kind::Boolean, _) => match integer {
                Some(0) => Some(boolean(false)),
                Some(1) => Some(boolean(true)),
                _ => None,
            },
            (Kind::Uuid, Value::Blob(blob, _)) => {
                blob.try_into().ok().map(|blob| packed(Element::Uuid(Uuid(blob))))
            }
            (Kind::Name, Value::Text(text)) => global(text),
            (Kind::Subscript, Value::Real(real)) if integer.is_none() => number_for(real).map(subscript),
            // One that M has as text would be found as that alone.
            (Kind::Subscript, Value::Integer(_) | Value::Real(_)) => integer
                .map(Subscript::from)
                .filter(|subscript| subscript.number().is_some())
                .map(|subscript| subscript.key_bytes()),
            (Kind::Subscript, Value::Text(text)) => Some(subscript(text.to_vec())),
            (Kind::Number, _) => {
                integer.filter(|&integer| integer > 0).map(|integer| integer.to_be_bytes().to_vec())
            }
            (Kind::WholeText, Value::Text(text)) => Some(text.to_vec()),
            (Kind::WholeBlob, Value::Blob(blob, _)) => Some(blob.to_vec()),
            _ => None,
        };
        bytes.ok_or(wanted)
    }

    /// The keys that have this value in the column.
    pub(crate) fn equal(self, value: Value<'_>) -> Equal {
        let limits = || (self.limit(value, Side::Lower, false), self.limit(value, Side::Upper, false));
        match (self, value) {
            (_, Value::Null) => Equal::Nothing,
            // Two zeros are equal, and an integer that no real is equal to has none.
            (Kind::Real, Value::Integer(_) | Value::Real(_)) => match limits() {
                (Limit::At(lower), Limit::At(upper)) if lower.bytes == upper.bytes => Equal::One(lower.bytes),
                (Limit::At(lower), Limit::At(upper)) => Equal::Between(lower, upper),
                _ => Equal::Nothing,
            },
            (Kind::Subscript, Value::Blob(..)) => Equal::Nothing,
            _ => self.encode(value).map_or(Equal::Nothing, Equal::One),
        }
    }

    /// What a condition leaves of the column: `>=` or `<=` a value, or, where that is left out, `>` or `<`.
    pub(crate) fn limit(self, value: Value<'_>, side: Side, beyond: bool) -> Limit {
        let numbers = matches!(self, Kind::Integer | Kind::Real | Kind::Boolean | Kind::Number);
        match (self, value) {
            (_, Value::Null) => Limit::Nothing,
            (Kind::Subscript, _) => subscript_limit(value, side, beyond, false),
            // Numbers are less than texts, texts less than blobs.
            (_, Value::Text(_) | Value::Blob(..)) if numbers => side.of_above(),
            (Kind::Text | Kind::WholeText | Kind::Name, Value::Blob(..)) => side.of_above(),
            (Kind::Text | Kind::WholeText | Kind::Name, Value::Integer(_) | Value::Real(_)) => {
                side.of_below()
            }
            (
                Kind::Blob | Kind::WholeBlob | Kind::Uuid,
                Value::Integer(_) | Value::Real(_) | Value::Text(_),
            ) => side.of_below(),
            (Kind::Real, Value::Real(real)) => real_limit(real, side, beyond),
            (Kind::Real, Value::Integer(integer)) => {
                let near = integer as f64;
                match exact(near) == Some(integer) {
                    true => real_limit(near, side, beyond),
                    false if side == Side::Lower => real_limit(near.next_down(), side, false),
                    false => real_limit(near.next_up(), side, false),
                }
            }
            (_, Value::Integer(integer)) => self.integer_limit(integer, side, beyond),
            (_, Value::Real(real)) => match floor(real) {
                Floor::Below => side.of_below(),
                Floor::Above => side.of_above(),
                Floor::Integer { floor, is_exact: true } => self.integer_limit(floor, side, beyond),
                // What is above it is above what is below it.
                Floor::Integer { floor, .. } => self.integer_limit(floor, side, side == Side::Lower),
            },
            (Kind::Uuid, Value::Blob(blob, _)) => {
                let whole = packed(Element::Uuid(uuid(blob)));
                match blob.len() {
                    16 => at(whole, side, beyond),
                    // All that begin with a shorter one are above it.
                    ..16 => before(whole),
                    _ => behind(whole),
                }
            }
            _ => self.encode(value).map_or(Limit::All, |bytes| at(bytes, side, beyond)),
        }
    }

    /// What two conditions leave, each a value and whether that is left out: from below, and from above.
    pub(crate) fn limits(
        self,
        lower: Option<(Value<'_>, bool)>,
        upper: Option<(Value<'_>, bool)>,
    ) -> (Limit, Limit) {
        let limit = |bound: Option<(Value<'_>, bool)>, side| {
            bound.map_or(Limit::All, |(value, beyond)| self.limit(value, side, beyond))
        };
        let of_numbers = match (self, lower, upper) {
            (Kind::Subscript, Some((lower, beyond)), Some((Value::Integer(_) | Value::Real(_), _))) => {
                Some(subscript_limit(lower, Side::Lower, beyond, true))
            }
            _ => None,
        };
        (of_numbers.unwrap_or_else(|| limit(lower, Side::Lower)), limit(upper, Side::Upper))
    }

    fn integer_limit(self, integer: i64, side: Side, beyond: bool) -> Limit {
        let bytes = match self {
            Kind::Boolean => match integer {
                ..0 => return side.of_below(),
                2.. => return side.of_above(),
                _ => boolean(integer == 1),
            },
            Kind::Number => match u64::try_from(integer) {
                Err(_) => return side.of_below(),
                Ok(number) => number.to_be_bytes().to_vec(),
            },
            _ => packed(Element::Integer(Integer::from(integer))),
        };
        at(bytes, side, beyond)
    }
}

/// A limit among reals, of which SQL takes the two zeros for one.
fn real_limit(real: f64, side: Side, beyond: bool) -> Limit {
    let is_behind = beyond == (side == Side::Lower);
    let real = match real == 0.0 {
        true if is_behind => 0.0,
        true => -0.0,
        false => real,
    };
    at(packed(Element::Double(real)), side, beyond)
}

/// A limit among subscripts, of which M has the empty text first, then numbers, then all other texts; where
/// SQL has all numbers first. Some numbers are text to SQL ([`shown`]). `numbers` alone may be left, as the
/// condition on the other side says.
fn subscript_limit(value: Value<'_>, side: Side, beyond: bool, numbers: bool) -> Limit {
    let near = match value {
        Value::Integer(integer) => Some(integer as f64),
        Value::Real(real) => Some(real),
        _ => None,
    };
    match (near, value, side) {
        // With those that are the same real to SQL.
        (Some(near), _, Side::Upper) if near.next_up().is_finite() => {
            behind(subscript(number_of(near.next_up())))
        }
        (Some(near), _, Side::Lower) if numbers && near.next_down().is_finite() => {
            before(subscript(number_of(near.next_down())))
        }
        (_, Value::Text(text), _) if text.first().is_some_and(|&first| first > b'9') => {
            at(subscript(text.to_vec()), side, beyond)
        }
        // No number's text begins so.
        (_, Value::Text(_), Side::Upper) => before(subscript(vec![b'9' + 1])),
        (_, Value::Blob(..), _) => side.of_above(),
        _ => Limit::All,
    }
}

/// Why a key cannot be found by its values.
const OTHERWISE: &str = "its key is written in another way than keys with these values are";

/// The columns of a key that is a tuple; none if it is another one. What SQL cannot have is told with the
/// reason.
pub(super) fn of_tuple(key: &[u8], kinds: impl ExactSizeIterator<Item = Kind>) -> Result<Vec<Part>, String> {
    let elements: Vec<Element> = tuple::unpack(key).map_err(|error| error.to_string())?;
    if elements.len() != kinds.len() {
        return Err(format!("it has {} elements in place of {}", elements.len(), kinds.len()));
    }
    if tuple::pack(&elements) != key {
        return Err(OTHERWISE.to_owned());
    }
    let parts = elements.into_iter().zip(kinds).map(|(element, kind)| match (element, kind) {
        (Element::Null, _) => Ok(Part::Null),
        (Element::Integer(integer), Kind::Integer) => match i64::try_from(&integer) {
            Ok(integer) => Ok(Part::Integer(integer)),
            Err(_) => Err(format!("SQL has no integer {integer}")),
        },
        (Element::Double(real), Kind::Real) if !real.is_nan() => Ok(Part::Real(real)),
        (Element::Text(text), Kind::Text) => Ok(Part::Text(text.into_bytes())),
        (Element::Bytes(bytes), Kind::Blob) => Ok(Part::Blob(bytes)),
        (Element::Bool(value), Kind::Boolean) => Ok(Part::Integer(value.into())),
        (Element::Uuid(uuid), Kind::Uuid) => Ok(Part::Blob(uuid.0.to_vec())),
        (element, kind) => Err(format!("it has {element:?} where the table has {}", kind.declared())),
    });
    parts.collect()
}

/// The columns of a key that is of a node of globals: its name and so many less one subscripts, of which
/// those behind the last are null.
pub(super) fn of_node(key: &[u8], count: usize) -> Result<Vec<Part>, String> {
    let (name, subscripts) = globals::parts(key).map_err(|error| error.to_string())?;
    if subscripts.len() >= count {
        return Err(format!(
            "it has {} subscripts, which are columns with subscripts={}",
            subscripts.len(),
            subscripts.len()
        ));
    }
    let written: Vec<u8> = subscripts.iter().flat_map(Subscript::key_bytes).collect();
    if key.get(name.len() + 1..) != Some(&written[..]) {
        return Err(OTHERWISE.to_owned());
    }
    let mut parts = vec![Part::Text(name.as_bytes().to_vec())];
    parts.extend(subscripts.iter().map(|subscript| match subscript.number() {
        Some(number) => shown(number),
        None => Part::Text(subscript.text().into_owned()),
    }));
    parts.resize(count, Part::Null);
    Ok(parts)
}
