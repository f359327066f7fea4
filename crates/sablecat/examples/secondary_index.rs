//! Users who are found by number, by e-mail address and by city; no two have one address. Their orders go
//! when they do.
//!
//! `cargo run -p sablecat --example secondary_index [DIRECTORY]`
//!
//! A user is a line of text: address, tab, city. What to find it by two functions say, which every process
//! that writes users gives when it opens the environment; the engine keeps the indices, whoever writes.

use std::path::PathBuf;

use sablecat::{Database, Env, ErrorKind, Index, IndexKeys, IndexOptions, OnRemove, Result};

struct Shop {
    env: Env,
    users: Database,
    by_email: Index,
    by_city: Index,
    orders: Database,
    by_user: Index,
}

/// A part of a line, as an index key.
fn part(n: usize) -> impl Fn(&[u8], &[u8], &mut IndexKeys) {
    move |_, line, keys| line.split(|&byte| byte == b'\t').nth(n).into_iter().for_each(|part| keys.push(part))
}

impl Shop {
    fn open(directory: PathBuf) -> Result<Shop> {
        let env = Env::builder()
            .extractor("first part", part(0))
            .extractor("second part", part(1))
            .open(directory)?;
        let (users, orders) = (env.database("users")?, env.database("orders")?);
        let by_email = env.index("users by email", &users, IndexOptions::new("first part").unique(true))?;
        let by_city = env.index("users by city", &users, IndexOptions::new("second part"))?;
        // An order begins with the number of its user, who has to be there.
        let of_a_user = IndexOptions::new("first part").references(&users, OnRemove::Cascade);
        let by_user = env.index("orders by user", &orders, of_a_user)?;
        Ok(Shop { env, users, by_email, by_city, orders, by_user })
    }

    /// The numbers of those who live in a city, in order. The users themselves are not read.
    fn in_city(&self, city: &str) -> Result<Vec<Vec<u8>>> {
        self.by_city.keys(&self.env, city..=city)?.map(|pair| pair.map(|(_, number)| number)).collect()
    }
}

fn main() -> Result<()> {
    let directory = std::env::args_os().nth(1);
    let directory =
        directory.map_or_else(|| std::env::temp_dir().join("sablecat-secondary-index"), PathBuf::from);
    let shop = Shop::open(directory)?;
    let Shop { env, users, by_email, by_city, orders, by_user } = &shop;
    users.clear()?;
    users.insert("1", "ada@example.org\tLondon")?;
    users.insert("2", "grace@example.org\tNew York")?;
    users.insert("3", "alan@example.org\tLondon")?;
    let (number, line) = by_email.get(env, "grace@example.org")?.expect("was just inserted");
    assert_eq!((&*number, &*line), (&b"2"[..], &b"grace@example.org\tNew York"[..]));
    assert_eq!(by_city.count(env, "London")?, 2);

    // Refused: and the user that number 3 was to replace is still there, with all that finds it.
    let refused = users.insert("3", "ada@example.org\tManchester").expect_err("user 1 has this address");
    assert_eq!(refused.kind(), ErrorKind::Duplicate);
    println!("refused: {refused}");
    assert_eq!(by_email.get(env, "alan@example.org")?.expect("is there").0, b"3");

    orders.insert("1001", "1\ttea")?;
    orders.insert("1002", "1\tbiscuits")?;
    orders.insert("1003", "3\tcoffee")?;
    assert_eq!(orders.insert("1004", "9\tsugar").expect_err("no such user").kind(), ErrorKind::Reference);
    // Who lives in London and has this address: of what both indices find, what is in both.
    let found: Vec<_> = Index::join(env, &[(by_city, b"London"), (by_email, b"ada@example.org")])?.collect();
    assert_eq!(found.len(), 1);

    // With the user go the orders.
    users.remove("1")?;
    assert_eq!((orders.len()?, by_user.count(env, "3")?), (1, 1));
    println!("{} users, {} orders", users.len()?, orders.len()?);
    assert_eq!(shop.in_city("London")?, [b"3"]);
    Ok(())
}
