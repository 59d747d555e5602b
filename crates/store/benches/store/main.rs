//! Measures the store beside the raw engine doing the same work in the same run, and prints ratios.
//!
//! `cargo bench -p everturn-store` runs everything on SQLite and on a PostgreSQL server that it starts itself; `--
//! sqlite` or `-- postgres` runs one, a name such as `-- fork` one measurement, `-- --quick` uses smaller sizes.
//! Times depend on the machine; the ratios are what `docs/benchmarks.md` records.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    missing_docs,
    reason = "a benchmark prints, and fails at once when something is wrong"
)]

mod fold;
mod fork;
mod length;
mod list;
mod place;
mod raw;
mod throughput;
mod watch;
mod work;

use place::Place;

/// How large the measurements are.
#[derive(Debug, Clone, Copy)]
struct Size {
    quick: bool,
}

impl Size {
    fn pick(self, quick: usize, usual: usize) -> usize {
        if self.quick { quick } else { usual }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let named = |name: &str| arguments.iter().any(|argument| argument == name);
    let size = Size { quick: named("--quick") };
    let (sqlite, postgres) = (named("sqlite"), named("postgres"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        println!("| what | ours | raw engine | ratio |");
        println!("|---|---|---|---|");
        if sqlite || !postgres {
            measure(Place::sqlite, size, &arguments).await;
        }
        if postgres || !sqlite {
            measure(Place::postgres, size, &arguments).await;
        }
        fold::measure(size);
    });
}

async fn measure(place: fn() -> Place, size: Size, arguments: &[String]) {
    const NAMES: [&str; 5] = ["throughput", "length", "list", "fork", "watch"];
    let all = !arguments.iter().any(|argument| NAMES.contains(&argument.as_str()));
    let wanted = |name: &str| all || arguments.iter().any(|argument| argument == name);
    if wanted("throughput") {
        throughput::measure(place, size).await;
    }
    if wanted("length") {
        length::measure(place, size).await;
    }
    if wanted("list") {
        list::measure(place, size).await;
    }
    if wanted("fork") {
        fork::measure(place, size).await;
    }
    if wanted("watch") {
        watch::measure(place, size).await;
    }
}

/// One line of the table.
fn line(what: &str, ours: &str, raw: &str, ratio: &str) {
    println!("| {what} | {ours} | {raw} | {ratio} |");
}
