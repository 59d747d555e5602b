//! No test file is forgotten.

use std::fs;
use std::path::Path;

#[test]
fn every_file_is_listed() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all");
    let main = fs::read_to_string(dir.join("main.rs")).unwrap();
    for name in crate::harness::names(&dir) {
        let module = name.trim_end_matches(".rs");
        assert!(module == "main" || main.contains(&format!("mod {module};")), "{name}");
    }
}
