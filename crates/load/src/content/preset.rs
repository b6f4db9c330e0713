//! Published workloads by name.

use super::{Amount, Command, Content, Mix, Part, Popularity};

/// A workload by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// memaslap's small values, as three of the studies used them: keys of 16 bytes, values of 128, 1 % writes.
    SmallValue,
    /// memtier_benchmark's settings of the two other studies: values of 4096 bytes that expire after 9999 or 10000 s.
    LargeValue,
    /// The general-purpose pool of Facebook, "ETC".
    FacebookEtc,
    /// One of Twitter's caches, by its number from 1.
    Twitter(u8),
}

/// Why there is no such preset.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PresetError {
    /// No preset has this name.
    #[error("--preset {0}: no such preset; `--preset list` shows them")]
    Unknown(String),
    /// The published numbers do not make a workload.
    #[error(
        "--preset {name}: the published table does not give its {missing}, so no load can be made after it; choose another (--preset list)"
    )]
    Incomplete {
        /// The preset.
        name: String,
        /// What is missing.
        missing: &'static str,
    },
}

impl Preset {
    /// Every preset, those that cannot be used among them.
    pub fn all() -> impl Iterator<Item = Preset> {
        [Preset::SmallValue, Preset::LargeValue, Preset::FacebookEtc]
            .into_iter()
            .chain((1..=TWITTER_CLUSTERS).map(Preset::Twitter))
    }

    /// The preset with this name.
    pub fn named(name: &str) -> Result<Preset, PresetError> {
        Preset::all()
            .find(|preset| preset.name() == name)
            .ok_or_else(|| PresetError::Unknown(name.to_owned()))
    }

    /// Its name.
    pub fn name(self) -> String {
        match self {
            Preset::SmallValue => "smallvalue".to_owned(),
            Preset::LargeValue => "largevalue".to_owned(),
            Preset::FacebookEtc => "facebook-etc".to_owned(),
            Preset::Twitter(number) => format!("twitter-cluster{number}"),
        }
    }

    /// What it sends.
    pub fn content(self) -> Result<Content, PresetError> {
        match self {
            Preset::SmallValue => Ok(Content { mix: Mix::of_writes(0.01), ..Content::default() }),
            Preset::LargeValue => Ok(Content {
                key_prefix: "memtier-".to_owned(),
                key_first: 1,
                key_size: Amount::Fixed(0),
                value_size: Amount::Fixed(4096),
                ttl: Amount::Uniform { least: 9999, most: 10000 },
                ..Content::default()
            }),
            Preset::FacebookEtc => Ok(Content {
                // 30 reads per write: Atikoglu et al., section 3.
                mix: Mix::of_writes(1.0 / 31.0),
                key_size: Amount::ETC_KEY,
                value_size: Amount::EtcValue,
                // The article shows a skew and gives no exponent: this one is ours.
                popularity: Popularity::Zipf { exponent: 1.0 },
                ..Content::default()
            }),
            Preset::Twitter(number) => twitter(number),
        }
    }
}

/// A cluster's row as content. Its sizes are the published means, because nothing else is published.
fn twitter(number: u8) -> Result<Content, PresetError> {
    let missing = |missing| PresetError::Incomplete { name: Preset::Twitter(number).name(), missing };
    let cells = row(number).ok_or(missing("row"))?;
    let cell = |column: &'static str| {
        cells.iter().find(|(name, _)| *name == column).map(|(_, cell)| *cell).ok_or(missing(column))
    };
    let size = |column| cell(column)?.parse().map(Amount::Fixed).map_err(|_| missing(column));
    let operations = pairs(cell("operations")?, ' ').ok_or(missing("operations"))?;
    let mix = operations
        .iter()
        .map(|&(name, share)| Some((name.parse::<Command>().ok()?, share)))
        .collect::<Option<Vec<_>>>()
        .and_then(|weights| Mix::of_weights(weights).ok())
        .ok_or(missing("operations"))?;
    let exponent = cell("zipf_alpha")?.parse().map_err(|_| missing("zipf_alpha"))?;
    let ttls = pairs(cell("common_ttls")?, ',').ok_or(missing("common_ttls"))?;
    let ttls = ttls
        .iter()
        .map(|&(time, weight)| seconds(time).map(|seconds| Part { least: seconds, most: seconds, weight }))
        .collect::<Option<Vec<_>>>()
        .ok_or(missing("common_ttls"))?;
    Ok(Content {
        mix,
        key_size: size("key_size_bytes")?,
        value_size: size("value_size_bytes")?,
        popularity: Popularity::Zipf { exponent },
        ttl: Amount::List(ttls),
        ..Content::default()
    })
}

/// The cells of a cluster with the names of their columns.
fn row(number: u8) -> Option<Vec<(&'static str, &'static str)>> {
    let mut lines = TWITTER.lines().map(cells);
    let header = lines.next()?;
    let name = format!("cluster{number}");
    let row = lines.find(|cells| cells.first() == Some(&name.as_str()))?;
    Some(header.into_iter().zip(row).collect())
}

/// A line's cells; those with a comma inside are quoted, and none has a quote inside.
fn cells(line: &str) -> Vec<&str> {
    let mut quoted = false;
    let split = line.split(move |c: char| {
        quoted ^= c == '"';
        c == ',' && !quoted
    });
    split.map(|cell| cell.trim_matches('"')).collect()
}

/// `a:0.5, b:0.5` as names and numbers; `None` where there is none or one cannot be read.
fn pairs(cell: &str, separator: char) -> Option<Vec<(&str, f64)>> {
    let pairs = cell.split(separator).map(|pair| {
        let (name, number) = pair.trim().rsplit_once(':')?;
        Some((name, number.parse().ok()?))
    });
    pairs.collect()
}

/// `240s`, `1.8h`, `4d` in seconds.
fn seconds(time: &str) -> Option<u64> {
    let (number, unit) = time.split_at_checked(time.len().checked_sub(1)?)?;
    let scale = match unit {
        "s" => 1.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * scale).round() as u64)
}

const TWITTER: &str = include_str!("../../data/twitter-2020mar.csv");
const TWITTER_CLUSTERS: u8 = 54;

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(number: u8) -> Content {
        Preset::Twitter(number).content().expect("the cluster's row is complete")
    }

    #[test]
    fn a_cluster_has_the_numbers_of_its_row() {
        let content = cluster(4);
        assert_eq!(content.mix.to_string(), "get=0.93,set=0.07");
        assert_eq!((content.key_size, content.value_size), (Amount::Fixed(67), Amount::Fixed(2439)));
        assert_eq!(content.popularity, Popularity::Zipf { exponent: 1.1004 });
        assert_eq!(content.ttl.to_string(), "60=0.39,300=0.24,3600=0.13,600=0.12,14400=0.09,86400=0.03");
        assert_eq!(cluster(7).ttl.to_string(), "6480=0.28,6120=0.24,6840=0.23,5760=0.13,7200=0.12");
        assert_eq!(cluster(12).mix.shares(), [(Command::Set, 0.8), (Command::Get, 0.2)]);
        assert_eq!(cluster(32).popularity, Popularity::Zipf { exponent: 0.0 });
    }

    /// Read with other means than the code's: every cell that a preset uses, of every row.
    #[test]
    fn every_preset_equals_the_table() {
        let mut usable = 0;
        for line in TWITTER.lines().skip(1) {
            let number: u8 =
                line["cluster".len()..line.find(',').expect("commas")].parse().expect("a number");
            let unquoted: Vec<&str> = line.split('"').collect();
            let (before, after) =
                (line.splitn(6, ',').collect::<Vec<_>>(), line.rsplitn(3, ',').collect::<Vec<_>>());
            let (alpha, operations) = (after[0], after[1]);
            match Preset::Twitter(number).content() {
                Ok(content) => {
                    usable += 1;
                    assert_eq!(content.key_size.to_string(), before[3], "{number}");
                    assert_eq!(content.value_size.to_string(), before[4], "{number}");
                    let Popularity::Zipf { exponent } = content.popularity else { panic!("{number}") };
                    assert_eq!(exponent, alpha.parse::<f64>().expect("a number"), "{number}");
                    let total: f64 = operations
                        .split(' ')
                        .map(|op| {
                            op.split(':').next_back().expect("a share").parse::<f64>().expect("a number")
                        })
                        .sum();
                    for (operation, (command, share)) in operations.split(' ').zip(content.mix.shares()) {
                        let expected = format!("{}:{:.2}", command.name(), share * total);
                        assert_eq!(operation, expected, "{number}");
                    }
                    let ttls = if unquoted.len() == 3 { unquoted[1].matches(':').count() } else { 1 };
                    let Amount::List(parts) = content.ttl else { panic!("{number}") };
                    assert_eq!(parts.len(), ttls, "{number}");
                }
                Err(PresetError::Incomplete { missing, .. }) => {
                    assert!([5, 43, 46].contains(&number), "{number}: {missing}");
                }
                Err(error) => panic!("{number}: {error}"),
            }
        }
        assert_eq!(usable, 51);
    }

    #[test]
    fn what_is_not_published_is_refused_with_the_reason() {
        let refused = |number| Preset::Twitter(number).content().expect_err("a cell is empty").to_string();
        assert!(
            refused(5).contains("twitter-cluster5: the published table does not give its operations"),
            "{}",
            refused(5)
        );
        assert!(refused(43).contains("zipf_alpha"));
        assert_eq!(
            Preset::named("twitter-cluster55"),
            Err(PresetError::Unknown("twitter-cluster55".to_owned()))
        );
    }

    #[test]
    fn presets_are_found_by_their_names() {
        for preset in Preset::all() {
            assert_eq!(Preset::named(&preset.name()), Ok(preset));
        }
    }
}
