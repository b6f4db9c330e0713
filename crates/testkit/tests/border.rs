//! The simulation calls every public function of the dataplane: what no world uses, no world can find a fault in.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The texts of all Rust sources under a folder of the repository.
fn sources(folder: &str) -> Vec<String> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(folder)];
    let mut texts = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                texts.push(fs::read_to_string(&path).expect("a readable source"));
            }
        }
    }
    texts
}

/// The names of what is `pub fn` in blocks `impl Dataplane`, as rustfmt writes them.
fn public_functions(text: &str) -> BTreeSet<&str> {
    let mut is_inside = false;
    let mut names = BTreeSet::new();
    for line in text.lines() {
        match line {
            "impl Dataplane {" => is_inside = true,
            "}" => is_inside = false,
            _ if is_inside => {
                let rest =
                    line.strip_prefix("    pub fn ").or_else(|| line.strip_prefix("    pub const fn "));
                names.extend(rest.and_then(|rest| rest.split(['(', '<']).next()));
            }
            _ => {}
        }
    }
    names
}

/// Whether code, without white space, calls this function of a dataplane. Dataplanes are called `dataplane` everywhere but in the network
/// thread of a crew.
fn calls(code: &str, name: &str) -> bool {
    ["dataplane.", "network.", "Dataplane::"].iter().any(|of| code.contains(&format!("{of}{name}(")))
}

/// Code without comments and white space.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(str::split_whitespace).collect()
}

#[test]
fn the_simulation_calls_every_public_function_of_the_dataplane() {
    let dataplane = sources("dataplane/src");
    let functions: BTreeSet<&str> = dataplane.iter().flat_map(|text| public_functions(text)).collect();
    assert!(functions.len() >= 60, "only {} public functions of the dataplane were found", functions.len());
    let simulation: String = sources("testkit/src/simulation").iter().map(|text| code(text)).collect();
    let missing: Vec<_> = functions.into_iter().filter(|name| !calls(&simulation, name)).collect();
    assert!(missing.is_empty(), "no simulated world calls {missing:?} of `Dataplane`");
}

#[test]
fn a_function_that_is_only_named_is_not_called() {
    let text = "/// dataplane.one(1)\nlet it = dataplane\n    .two(2);\nother.three();";
    let code = code(text);
    assert_eq!(["one", "two", "three"].map(|name| calls(&code, name)), [false, true, false]);
    let text = "impl Other {\n    pub fn one() {}\n}\nimpl Dataplane {\n    pub fn two(&self) {\n    }\n    fn three() {}\n}";
    assert_eq!(public_functions(text).into_iter().collect::<Vec<_>>(), ["two"]);
}
