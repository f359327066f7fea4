//! What values are made of.

use sablecat::typed::{Value as _, ValueBytes};

use super::column::exact;
use crate::record::Value;

/// What the values of a database are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Blob,
    Text,
    Typed(Typed),
}

/// The value of SQL for a real, of which it takes what is no number for null.
fn of_real(real: f64) -> Value<'static> {
    if real.is_nan() { Value::Null } else { Value::Real(real) }
}

macro_rules! typed {
    ($($name:literal $variant:ident $type:ty, $declared:literal,
       $value:pat => $set:expr, $read:ident => $shown:expr;)*) => {
        /// Types of a fixed length, as [`sablecat::typed`] stores them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Typed {
            $($variant),*
        }

        /// What can be said of values where a table is made.
        pub(crate) const NAMES: &[&str] = &["blob", "text", $($name),*];

        impl Typed {
            fn of(name: &str) -> Option<Typed> {
                $(if name.eq_ignore_ascii_case($name) {
                    return Some(Typed::$variant);
                })*
                None
            }

            fn name(self) -> &'static str {
                match self {
                    $(Typed::$variant => $name),*
                }
            }

            fn declared(self) -> &'static str {
                match self {
                    $(Typed::$variant => $declared),*
                }
            }

            fn encode(self, value: Value<'_>) -> Option<Vec<u8>> {
                match (self, value) {
                    $((Typed::$variant, $value) => {
                        let value: Option<$type> = $set;
                        Some(value?.value_bytes().into_owned())
                    })*
                    _ => None,
                }
            }

            fn decode(self, bytes: &[u8]) -> Result<Value<'static>, String> {
                match self {
                    $(Typed::$variant => {
                        let $read = <$type>::from_value_bytes(bytes).map_err(|error| error.to_string())?;
                        $shown
                    })*
                }
            }
        }
    };
}

typed! {
    "i8" I8 i8, "INTEGER", Value::Integer(n) => n.try_into().ok(), n => Ok(Value::Integer(n.into()));
    "i16" I16 i16, "INTEGER", Value::Integer(n) => n.try_into().ok(), n => Ok(Value::Integer(n.into()));
    "i32" I32 i32, "INTEGER", Value::Integer(n) => n.try_into().ok(), n => Ok(Value::Integer(n.into()));
    "i64" I64 i64, "INTEGER", Value::Integer(n) => Some(n), n => Ok(Value::Integer(n));
    "u8" U8 u8, "INTEGER", Value::Integer(n) => n.try_into().ok(), n => Ok(Value::Integer(n.into()));
    "u16" U16 u16, "INTEGER", Value::Integer(n) => n.try_into().ok(), n => Ok(Value::Integer(n.into()));
    "u32" U32 u32, "INTEGER", Value::Integer(n) => n.try_into().ok(), n => Ok(Value::Integer(n.into()));
    "u64" U64 u64, "INTEGER", Value::Integer(n) => n.try_into().ok(),
        n => n.try_into().map(Value::Integer).map_err(|_| format!("SQL has no integer {n}"));
    "f32" F32 f32, "REAL", Value::Real(n) => Some(n as f32).filter(|near| near.is_finite() || !n.is_finite()),
        n => Ok(of_real(n.into()));
    "f64" F64 f64, "REAL", Value::Real(n) => Some(n), n => Ok(of_real(n));
    "bool" Bool bool, "INTEGER", Value::Integer(n) => match n {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }, is_so => Ok(Value::Integer(is_so.into()));
}

impl Content {
    /// What a name stands for.
    pub(crate) fn of(name: &str) -> Option<Content> {
        match () {
            () if name.eq_ignore_ascii_case("blob") => Some(Content::Blob),
            () if name.eq_ignore_ascii_case("text") => Some(Content::Text),
            () => Typed::of(name).map(Content::Typed),
        }
    }

    /// The type by which SQL knows the column.
    pub(crate) fn declared(self) -> &'static str {
        match self {
            Content::Blob => "BLOB",
            Content::Text => "TEXT",
            Content::Typed(typed) => typed.declared(),
        }
    }

    /// Whether null is a value: what is no number among reals.
    pub(crate) fn has_null(self) -> bool {
        self.declared() == "REAL"
    }

    /// The bytes of a value that is to be set. An error says what the column takes.
    pub(crate) fn encode(self, value: Value<'_>) -> Result<Vec<u8>, &'static str> {
        // As SQL does it with numbers.
        let value = match (self.declared(), value) {
            ("REAL", Value::Null) => Value::Real(f64::NAN),
            ("REAL", Value::Integer(integer)) => Value::Real(integer as f64),
            ("INTEGER", Value::Real(real)) => exact(real).map_or(value, Value::Integer),
            _ => value,
        };
        match (self, value) {
            (Content::Blob, Value::Blob(bytes, _)) | (Content::Text, Value::Text(bytes)) => {
                Ok(bytes.to_vec())
            }
            (Content::Blob, _) => Err("blobs"),
            (Content::Text, _) => Err("text"),
            (Content::Typed(typed), value) => typed.encode(value).ok_or(typed.name()),
        }
    }

    /// The value of SQL for what is stored; an error says why there is none.
    pub(crate) fn decode(self, bytes: &[u8]) -> Result<Value<'_>, String> {
        match self {
            Content::Blob => Ok(Value::Blob(bytes, 0)),
            Content::Text => Ok(Value::Text(bytes)),
            Content::Typed(typed) => typed.decode(bytes),
        }
    }
}
