//! `stat`: numbers about an environment.

use sablecat::Method;
use sablecat_papers::{Grid, thousands};
use serde_json::json;

use crate::arguments::{Existing, Reading};
use crate::{Failure, Outcome, output};

/// Print numbers about an environment: its databases, pages, files, log
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Existing,
    #[command(flatten)]
    reading: Reading,
}

pub(crate) fn run(Arguments { place, reading }: &Arguments) -> Result<Outcome, Failure> {
    let env = place.open_to_read(reading)?;
    let stats = env.stats()?;
    env.close()?;
    if place.json {
        output::json(&json!({
            "databases": stats.databases,
            "methods": stats.methods,
            "page_size": stats.page_size,
            "cache_bytes": stats.cache_bytes,
            "pages": stats.pages,
            "blocks": stats.blocks,
            "volume_bytes": stats.volume_bytes,
            "volumes": stats.volumes.iter().map(|volume| json!({
                "name": volume.name,
                "path": volume.path,
                "blocks": volume.blocks,
                "bytes": volume.bytes,
            })).collect::<Vec<_>>(),
            "log_tail": stats.log_tail.0,
            "log_written": stats.log_written.0,
            "log_durable": stats.log_durable.0,
            "checkpoint": stats.checkpoint.0,
        }))?;
    } else {
        let number = |number: u64| thousands(number as f64);
        let usual = Method::default().to_string();
        let named = stats.databases.iter().zip(&stats.methods);
        let named: Vec<_> =
            named.map(|(name, method)| if *method == usual { name.clone() } else { format!("{name} ({method})") }).collect();
        let databases = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
        output::pairs([
            ("databases", databases),
            ("page size, bytes", number(stats.page_size)),
            ("cache, bytes", number(stats.cache_bytes)),
            ("pages in use", number(stats.pages)),
            ("blocks in use", number(stats.blocks)),
            ("volumes, bytes", number(stats.volume_bytes)),
            ("end of the log, LSN", number(stats.log_tail.0)),
            ("log written up to", number(stats.log_written.0)),
            ("log durable up to", number(stats.log_durable.0)),
            ("last checkpoint", number(stats.checkpoint.0)),
        ])?;
        let mut volumes = Grid::new("\nVolumes", ["name", "blocks in use", "bytes", "file"], 0);
        for volume in &stats.volumes {
            let path = volume.path.display().to_string();
            volumes.rows.push(vec![volume.name.clone(), number(volume.blocks), number(volume.bytes), path]);
        }
        output::table(&volumes)?;
    }
    Ok(Outcome::Done)
}
