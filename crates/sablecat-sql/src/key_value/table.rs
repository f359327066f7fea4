//! Tables that databases make: which columns, and which keys a statement wants of them.
//!
//! | of a database that holds | there are the columns |
//! |---|---|
//! | records | `key`, or those of a tuple; `value` |
//! | keys with several values | `key`, `value`, `place` (hidden): only to be read |
//! | a queue, numbered records | `number`, `value` |
//! | renumbered records | `number`, `value`, `place` (hidden) |
//! | globals | `global`, `s1`, `s2` and so on, `value`, `place` (hidden) |
//! | records that expire | as records, and `expires` |
//!
//! By `place` rows are known whose columns do not say which record they are, or not by themselves.

use std::fmt::Write;

use sablecat::{Database, Holds, Method};

use super::column::{At, Equal, Kind, Limit};
use super::content::{self, Content};
use crate::failure::Failure;
use crate::record::Value;

type Result<T> = std::result::Result<T, Failure>;

/// Subscripts of a global that are columns, where nothing else is said, and at most.
const SUBSCRIPTS: usize = 8;
const SUBSCRIPTS_MAX: usize = 31;
/// Columns of a tuple at most.
const ELEMENTS_MAX: usize = 64;

/// A column of a key.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// How the columns of a key make it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// It is the one column.
    Whole,
    /// By the number of a record, which its place is, not its key.
    Place,
    /// The elements of a tuple.
    Tuple,
    /// The name of a global and subscripts, as many as there are.
    Node,
}

/// What rows a database makes.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) holds: Holds,
    pub(crate) form: Form,
    pub(crate) columns: Vec<Column>,
    pub(crate) content: Content,
    /// Whether the database has its keys in the order of their bytes.
    pub(crate) is_ordered: bool,
}

/// A table.
#[derive(Debug)]
pub(crate) struct Table {
    /// The name of the database.
    pub(crate) name: Box<str>,
    arguments: Arguments,
    pub(crate) layout: Layout,
}

/// What is said where a table is made.
#[derive(Debug, Default)]
struct Arguments {
    key: Option<Vec<Column>>,
    /// Whether the key is a tuple.
    is_tuple: bool,
    value: Option<Content>,
    subscripts: Option<usize>,
}

/// Which keys a statement wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    Nothing,
    /// This one.
    One(Vec<u8>),
    /// From the first on, and below the second, as far as they are there.
    Keys(Option<Vec<u8>>, Option<Vec<u8>>),
}

impl Arguments {
    fn of(arguments: &[&str]) -> Result<Arguments> {
        let mut read = Arguments::default();
        for argument in arguments {
            let (what, said) = argument.split_once('=').ok_or_else(|| no_argument(argument))?;
            let (what, said) = (what.trim(), said.trim());
            let is_said = |name: &str, has: bool| has && what.eq_ignore_ascii_case(name);
            if is_said("key", read.key.is_some()) || is_said("value", read.value.is_some()) {
                return Err(Failure::refused(format!("the module sablecat is given {what} more than once")));
            }
            if what.eq_ignore_ascii_case("key") {
                read.key = Some(match said.strip_prefix('(').and_then(|said| said.strip_suffix(')')) {
                    Some(elements) => {
                        read.is_tuple = true;
                        elements_of(elements)?
                    }
                    None => vec![Column { name: "key".to_owned(), kind: whole_of(said, argument)? }],
                });
            } else if what.eq_ignore_ascii_case("value") {
                read.value = Some(Content::of(said).ok_or_else(|| no_argument(argument))?);
            } else if what.eq_ignore_ascii_case("subscripts") {
                let count = said.parse().ok().filter(|count| (1..=SUBSCRIPTS_MAX).contains(count));
                read.subscripts = Some(count.ok_or_else(|| no_argument(argument))?);
            } else {
                return Err(no_argument(argument));
            }
        }
        Ok(read)
    }

    /// That nothing is said of a database which has no such.
    fn require(&self, name: &str, holds: Holds) -> Result<()> {
        let key = matches!(holds, Holds::Records | Holds::Expiring | Holds::Values(_));
        let wrong = match () {
            () if self.key.is_some() && !key => "key",
            () if self.is_tuple && matches!(holds, Holds::Values(_)) => "key with several columns",
            () if self.subscripts.is_some() && holds != Holds::Globals => "subscripts",
            () => return Ok(()),
        };
        Err(Failure::refused(format!(
            "the database {name:?} holds {holds}, of which the module sablecat takes no argument {wrong}"
        )))
    }
}

fn no_argument(argument: &str) -> Failure {
    Failure::refused(format!(
        "the module sablecat has no argument {argument}; there are key=text, key=blob, key=(name type, ...) \
         with integer, real, text, blob, boolean and uuid, value= with {}, and subscripts= with 1 to \
         {SUBSCRIPTS_MAX}",
        content::NAMES.join(", ")
    ))
}

fn whole_of(said: &str, argument: &str) -> Result<Kind> {
    match () {
        () if said.eq_ignore_ascii_case("text") => Ok(Kind::WholeText),
        () if said.eq_ignore_ascii_case("blob") => Ok(Kind::WholeBlob),
        () => Err(no_argument(argument)),
    }
}

/// The columns of a tuple, each a name and a type.
fn elements_of(said: &str) -> Result<Vec<Column>> {
    let mut columns: Vec<Column> = Vec::new();
    for element in said.split(',').map(str::trim) {
        let kind = |name: &str| {
            let kinds = [
                ("integer", Kind::Integer),
                ("real", Kind::Real),
                ("text", Kind::Text),
                ("blob", Kind::Blob),
                ("boolean", Kind::Boolean),
                ("uuid", Kind::Uuid),
            ];
            kinds.into_iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, kind)| kind)
        };
        let (name, kind) = element
            .split_once(|byte: char| byte.is_ascii_whitespace())
            .and_then(|(name, known)| Some((name, kind(known.trim())?)))
            .ok_or_else(|| no_argument(&format!("key=({said})")))?;
        let is_taken = |other: &str| other.eq_ignore_ascii_case(name);
        let is_word = |name: &str| name.chars().all(|c| c == '_' || c.is_alphanumeric());
        if !is_word(name) || RESERVED.into_iter().any(is_taken) || columns.iter().any(|c| is_taken(&c.name)) {
            return Err(Failure::refused(format!(
                "{name} cannot be a key column of a table of sablecat: it is not a name, or is the name of \
                 another column"
            )));
        }
        columns.push(Column { name: name.to_owned(), kind });
    }
    match columns.len() {
        1..=ELEMENTS_MAX => Ok(columns),
        _ => Err(Failure::refused(format!("a key of more than {ELEMENTS_MAX} columns"))),
    }
}

/// Columns beside those of a key.
const RESERVED: [&str; 3] = [VALUE, EXPIRES, PLACE];
const VALUE: &str = "value";
const EXPIRES: &str = "expires";
const PLACE: &str = "place";

impl Layout {
    fn of(arguments: &Arguments, holds: Holds, is_ordered: bool) -> Layout {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        let (form, columns) = match holds {
            Holds::Queue { .. } | Holds::Numbers { .. } => {
                (Form::Whole, vec![column("number", Kind::Number)])
            }
            Holds::Renumbered { .. } => (Form::Place, vec![column("number", Kind::Number)]),
            Holds::Globals => {
                let subscripts = (1..=arguments.subscripts.unwrap_or(SUBSCRIPTS))
                    .map(|n| column(&format!("s{n}"), Kind::Subscript));
                (Form::Node, [column("global", Kind::Name)].into_iter().chain(subscripts).collect())
            }
            _ => match &arguments.key {
                None => (Form::Whole, vec![column("key", Kind::WholeBlob)]),
                Some(columns) if arguments.is_tuple => (Form::Tuple, columns.clone()),
                Some(columns) => (Form::Whole, columns.clone()),
            },
        };
        let content = arguments.value.unwrap_or(Content::Blob);
        Layout { holds, form, columns, content, is_ordered }
    }

    /// Whether a row is known by the value of a hidden column.
    pub(crate) fn has_place(&self) -> bool {
        self.form != Form::Whole || self.is_of_values()
    }

    pub(crate) fn expires(&self) -> bool {
        self.holds == Holds::Expiring
    }

    /// Whether a key has several values.
    pub(crate) fn is_of_values(&self) -> bool {
        matches!(self.holds, Holds::Values(_))
    }

    /// All columns, with their types as SQL knows them.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &'static str)> {
        let keys = self.columns.iter().map(|column| (&*column.name, column.kind.declared()));
        let value = [(VALUE, self.content.declared())];
        let expires = self.expires().then_some((EXPIRES, "INTEGER"));
        let place = self.has_place().then_some((PLACE, "BLOB"));
        keys.chain(value).chain(expires).chain(place)
    }

    /// What is declared to SQLite.
    pub(crate) fn declaration(&self) -> String {
        let mut sql = "CREATE TABLE x(".to_owned();
        for (n, (name, declared)) in self.all().enumerate() {
            let rest = match name {
                PLACE => " HIDDEN PRIMARY KEY",
                VALUE if !self.content.has_null() => " NOT NULL",
                VALUE => "",
                EXPIRES => "",
                _ if self.form == Form::Whole && !self.has_place() => " PRIMARY KEY",
                _ if self.form == Form::Tuple || n > 0 => "",
                _ => " NOT NULL",
            };
            let comma = if n == 0 { "" } else { ", " };
            // Nothing is wrong with writing to a string.
            let _ = write!(sql, "{comma}\"{name}\" {declared}{rest}");
        }
        sql + ") WITHOUT ROWID"
    }

    /// Which keys a statement wants, by the values of the first columns and by what bounds the next, each a
    /// value and whether that is left out.
    pub(crate) fn wanted(
        &self,
        equal: &[Value<'_>],
        lower: Option<(Value<'_>, bool)>,
        upper: Option<(Value<'_>, bool)>,
    ) -> Wanted {
        let mut begin = Vec::new();
        for (column, &value) in self.columns.iter().zip(equal) {
            match column.kind.equal(value) {
                Equal::Nothing => return Wanted::Nothing,
                Equal::One(bytes) => begin.extend(bytes),
                // All are looked at where they are in no order.
                Equal::Between(..) if !self.is_ordered => return Wanted::Keys(None, None),
                Equal::Between(lower, upper) => {
                    return self.between(&begin, Limit::At(lower), Limit::At(upper));
                }
            }
        }
        match self.columns.get(equal.len()) {
            None => Wanted::One(begin),
            Some(next) => {
                let (lower, upper) = next.kind.limits(lower, upper);
                self.between(&begin, lower, upper)
            }
        }
    }

    /// The keys that begin with some bytes and have the next column within limits.
    fn between(&self, begin: &[u8], lower: Limit, upper: Limit) -> Wanted {
        // Behind all keys that go on from there. A key of one column does not go on.
        let end: u8 = if matches!(self.form, Form::Tuple | Form::Node) { 0xff } else { 0 };
        let key = |At { bytes, behind }: At| {
            let end: &[u8] = if behind { &[end] } else { &[] };
            Some([begin, &bytes[..], end].concat())
        };
        let lower = match lower {
            Limit::Nothing => return Wanted::Nothing,
            Limit::All => (!begin.is_empty()).then(|| begin.to_vec()),
            Limit::At(at) => key(at),
        };
        let upper = match upper {
            Limit::Nothing => return Wanted::Nothing,
            Limit::All => (!begin.is_empty()).then(|| [begin, &[end]].concat()),
            Limit::At(at) => key(at),
        };
        Wanted::Keys(lower, upper)
    }
}

impl Table {
    /// The table of a database. One that `is_new` is of a database that is there. What is wrong with another
    /// is told to statements that read it: it is to be dropped as others are.
    pub(crate) fn new(
        name: &str,
        arguments: &[&str],
        found: Option<&Database>,
        is_new: bool,
    ) -> Result<Table> {
        let arguments = Arguments::of(arguments)?;
        let layout = match found.map(|database| layout_of(&arguments, database)) {
            Some(Ok(layout)) => layout,
            Some(Err(failure)) if is_new => return Err(failure),
            None if is_new => {
                return Err(Failure::refused(format!("there is no database {name:?} in the environment")));
            }
            _ => Layout::of(&arguments, Holds::Records, true),
        };
        Ok(Table { name: name.into(), arguments, layout })
    }

    /// That a database is as it was when the table was made.
    pub(crate) fn require(&self, database: &Database) -> Result<()> {
        let kind = kind_of(&self.arguments, database)?;
        if kind == (self.layout.holds, self.layout.is_ordered) {
            return Ok(());
        }
        Err(Failure::refused(format!(
            "the database {:?} was created again, as another kind; drop its table and create it again",
            self.name
        )))
    }
}

fn layout_of(arguments: &Arguments, database: &Database) -> Result<Layout> {
    kind_of(arguments, database).map(|(holds, is_ordered)| Layout::of(arguments, holds, is_ordered))
}

/// What a database holds, and whether it has its keys in the order of their bytes.
fn kind_of(arguments: &Arguments, database: &Database) -> Result<(Holds, bool)> {
    let (name, holds) = (database.name(), database.holds());
    match holds {
        Holds::Records | Holds::Values(_) | Holds::Globals | Holds::Expiring => {}
        Holds::Queue { .. } | Holds::Numbers { .. } | Holds::Renumbered { .. } => {}
        _ => {
            return Err(Failure::refused(format!(
                "the database {name:?} holds {holds}, which cannot be a table"
            )));
        }
    }
    arguments.require(name, holds)?;
    Ok((holds, database.method() != Method::Hash && database.comparator().is_none()))
}
