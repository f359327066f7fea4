//! Users who are found by number, by e-mail address and by city; no two have one address.
//!
//! `cargo run -p sablecat --example secondary_index [DIRECTORY]`
//!
//! There are three databases: the users, and two indexes, which are kept by hand in the same transaction as
//! what they point to. An address that is taken is an error of the program's own, which it returns out of the
//! transaction: nothing of that transaction is kept, and it is not run again.

use std::fmt;
use std::path::PathBuf;
use std::{env, error};

use sablecat::{Database, Env, Prefix, Result, Txn};

#[derive(Clone, Debug, PartialEq, Eq)]
struct User {
    email: String,
    city: String,
}

/// Why a user was not stored.
#[derive(Debug)]
enum Refusal {
    /// Another has the address.
    EmailTaken {
        by: u64,
    },
    Store(sablecat::Error),
}

impl From<sablecat::Error> for Refusal {
    fn from(error: sablecat::Error) -> Refusal {
        Refusal::Store(error)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::EmailTaken { by } => write!(f, "user {by} has this address"),
            Refusal::Store(error) => error.fmt(f),
        }
    }
}

impl error::Error for Refusal {}

struct Users {
    env: Env,
    /// From number to user.
    users: Database,
    /// From address to number: unique, as keys are.
    by_email: Database,
    /// City, zero byte and number, without a value: as many users to a city as there are.
    by_city: Database,
}

impl Users {
    fn open(directory: PathBuf) -> Result<Users> {
        let env = Env::open(directory)?;
        let [users, by_email, by_city] =
            ["users", "users by email", "users by city"].map(|name| env.database(name));
        Ok(Users { users: users?, by_email: by_email?, by_city: by_city?, env })
    }

    /// Stores a user, in the place of the one who had the number before.
    fn set(&self, number: u64, user: &User) -> std::result::Result<(), Refusal> {
        self.env.try_write(|txn| {
            self.take_out(txn, number)?;
            if !txn.insert_new(&self.by_email, &user.email, number.to_be_bytes())? {
                let by = txn.get(&self.by_email, &user.email)?.unwrap_or_default();
                return Err(Refusal::EmailTaken { by: to_number(&by) });
            }
            txn.insert(&self.by_city, in_city(&user.city, number), [])?;
            Ok(txn.insert(&self.users, number.to_be_bytes(), format!("{}\n{}", user.email, user.city))?)
        })
    }

    fn remove(&self, number: u64) -> Result<bool> {
        self.env.write(|txn| self.take_out(txn, number))
    }

    /// A user goes, and what points to it.
    fn take_out(&self, txn: &mut Txn<'_>, number: u64) -> Result<bool> {
        let Some(user) = txn.take(&self.users, number.to_be_bytes())?.map(|value| to_user(&value)) else {
            return Ok(false);
        };
        txn.remove(&self.by_email, &user.email)?;
        txn.remove(&self.by_city, in_city(&user.city, number))?;
        Ok(true)
    }

    /// The user with an address: two reads of one state, so the second finds what the first has pointed to.
    fn with_email(&self, email: &str) -> Result<Option<(u64, User)>> {
        let now = self.env.snapshot()?;
        let Some(number) = now.get(&self.by_email, email)? else { return Ok(None) };
        Ok(now.get(&self.users, &number)?.map(|user| (to_number(&number), to_user(&user))))
    }

    /// The numbers of those who live in a city, in order.
    fn in_city(&self, city: &str) -> Result<Vec<u64>> {
        self.by_city
            .range(Prefix([city.as_bytes(), &[0]].concat()))?
            .map(|record| Ok(to_number(&record?.0[city.len() + 1..])))
            .collect()
    }
}

fn in_city(city: &str, number: u64) -> Vec<u8> {
    [city.as_bytes(), &[0], &number.to_be_bytes()].concat()
}

fn to_number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().expect("numbers are stored as eight bytes"))
}

fn to_user(value: &[u8]) -> User {
    let text = String::from_utf8_lossy(value);
    let (email, city) = text.split_once('\n').unwrap_or_default();
    User { email: email.to_owned(), city: city.to_owned() }
}

fn user(email: &str, city: &str) -> User {
    User { email: email.to_owned(), city: city.to_owned() }
}

fn main() -> std::result::Result<(), Box<dyn error::Error>> {
    let users = Users::open(
        env::args_os().nth(1).map_or_else(|| env::temp_dir().join("sablecat-secondary-index"), PathBuf::from),
    )?;
    users.set(1, &user("ada@example.org", "London"))?;
    users.set(2, &user("grace@example.org", "New York"))?;
    users.set(3, &user("alan@example.org", "London"))?;
    assert_eq!(users.in_city("London")?, [1, 3]);
    assert_eq!(users.with_email("grace@example.org")?, Some((2, user("grace@example.org", "New York"))));

    // Refused: and the user that number 3 was to replace is still there, with all that points to it.
    let refused = users.set(3, &user("ada@example.org", "Manchester"));
    assert!(matches!(refused, Err(Refusal::EmailTaken { by: 1 })));
    if let Err(refusal) = refused {
        println!("refused: {refusal}");
    }
    assert_eq!(users.with_email("alan@example.org")?, Some((3, user("alan@example.org", "London"))));

    users.set(3, &user("alan@example.org", "Manchester"))?;
    assert_eq!((users.in_city("London")?, users.in_city("Manchester")?), (vec![1], vec![3]));
    users.remove(1)?;
    assert_eq!(users.with_email("ada@example.org")?, None);
    users.set(4, &user("ada@example.org", "Paris"))?;
    users.remove(4)?;
    assert_eq!((users.users.len()?, users.by_email.len()?, users.by_city.len()?), (2, 2, 2));
    println!("{} users", users.users.len()?);
    Ok(())
}
