//! Files that a person or a project names, whatever lies there.

use std::path::Path;
use std::time::Duration;

use everturn_tools::foreign_file::{
    self, FetchedLines, FetchedNames, ForeignFileError, LineRange, ReadBounds,
};
use rustix::fs::{CWD, FileType, Mode};

const BOUNDS: ReadBounds = ReadBounds::bytes(16);

/// What came of reading a path, in both ways of reading, which must agree.
async fn outcome(path: &Path, bounds: ReadBounds) -> Result<Vec<u8>, String> {
    let read = foreign_file::read(path, bounds).map_err(|error| error.to_string());
    let fetched = foreign_file::fetch(path.to_owned(), bounds).await.map_err(|error| error.to_string());
    assert_eq!(read, fetched, "{}", path.display());
    read
}

#[tokio::test]
async fn ordinary_files_are_read_up_to_a_size() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    for (content, expected) in [
        ("", Ok(b"".to_vec())),
        ("sixteen letters.", Ok(b"sixteen letters.".to_vec())),
        ("seventeen letters", Err("it has more than 16 bytes".to_owned())),
    ] {
        std::fs::write(&file, content).unwrap();
        assert_eq!(outcome(&file, BOUNDS).await, expected, "{content}");
    }
    std::fs::write(&file, "text").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(outcome(&link, BOUNDS).await, Ok(b"text".to_vec()));
    std::fs::write(&file, b"\xff").unwrap();
    assert_eq!(foreign_file::read_text(&file, BOUNDS).unwrap_err().to_string(), "it is not UTF-8 text");
    let absent = foreign_file::read(&folder.path().join("absent"), BOUNDS).unwrap_err();
    assert!(absent.is_absent(), "{absent}");
}

#[tokio::test]
async fn what_is_no_ordinary_file_is_refused_at_once() {
    // A pipe was waited for, and a device was read until the memory was full.
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let refused = |what: &str| Err(format!("it is {what}, not an ordinary file"));
    assert_eq!(outcome(&pipe, BOUNDS).await, refused("a named pipe"));
    assert_eq!(outcome(Path::new("/dev/zero"), BOUNDS).await, refused("a device"));
    assert_eq!(outcome(folder.path(), BOUNDS).await, refused("a folder"));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_says_it_is_empty_and_never_ends_is_left() {
    // It is an ordinary file of no bytes, and has eight of them for every page that a process can address.
    let endless = Path::new("/proc/self/pagemap");
    assert_eq!(std::fs::metadata(endless).unwrap().len(), 0);
    assert_eq!(outcome(endless, BOUNDS).await, Err("it has more than 16 bytes".to_owned()));
    let short = ReadBounds { bytes: u64::MAX, time: Duration::from_millis(20) };
    for error in [
        foreign_file::read(endless, short).unwrap_err(),
        foreign_file::fetch(endless.to_owned(), short).await.unwrap_err(),
    ] {
        assert!(matches!(error, ForeignFileError::TooSlow(_)), "{error}");
    }
    // Nobody reads on: it would fill the memory.
    let is_reader = |task: &Path| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim_end() == "foreign-file")
    };
    let tasks = || std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let left = async {
        while tasks().any(|task| is_reader(&task.path())) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), left).await.unwrap();
}

#[tokio::test]
async fn a_file_that_says_it_is_too_large_is_not_read_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::File::create(&file).unwrap().set_len((1 << 40) + 1).unwrap();
    let bounds = ReadBounds { bytes: 1 << 40, time: Duration::from_secs(5) };
    assert_eq!(outcome(&file, bounds).await, Err("it has more than 1099511627776 bytes".to_owned()));
}

#[tokio::test]
async fn lines_of_a_file_are_read_and_nothing_else_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "one\ntwo\nthree\nfour").unwrap();
    let check = async |first: u64, last: Option<u64>, content: &str, line: u64, is_cut: bool| {
        let lines = LineRange { first, last };
        let expected = FetchedLines { content: content.into(), last: line, is_cut };
        let fetched = foreign_file::fetch_lines(file.clone(), lines, BOUNDS).await.unwrap();
        assert_eq!(fetched, expected, "{lines:?}");
    };
    check(2, Some(3), "two\nthree\n", 3, false).await;
    check(2, Some(2), "two\n", 2, false).await;
    check(3, None, "three\nfour", 4, false).await;
    check(4, Some(9), "four", 4, false).await;
    check(5, None, "", 4, false).await;
    check(1, None, "one\ntwo\nthree\nfo", 4, true).await;
    std::fs::write(&file, "").unwrap();
    check(1, None, "", 0, false).await;
}

#[tokio::test]
async fn lines_of_a_file_that_fits_nowhere_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    // A long line, which takes no place on the disk.
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(64 << 20).unwrap();
    rustix::io::pwrite(&file, b"\nsecond\n", (64 << 20) - 1).unwrap();
    let lines = LineRange { first: 2, last: None };
    let patient = ReadBounds { time: Duration::from_secs(300), ..BOUNDS };
    let fetched = foreign_file::fetch_lines(path, lines, patient).await.unwrap();
    assert_eq!(fetched, FetchedLines { content: b"second\n".to_vec(), last: 2, is_cut: false });
}

#[tokio::test]
async fn the_first_names_in_a_folder_are_read() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["b", "c", "d"] {
        std::fs::write(folder.path().join(name), "").unwrap();
    }
    std::fs::create_dir(folder.path().join("a")).unwrap();
    std::os::unix::fs::symlink(folder.path(), folder.path().join("e")).unwrap();
    let check = async |most: usize, names: &[&str]| {
        let time = Duration::from_secs(60);
        let fetched = foreign_file::fetch_names(folder.path().to_owned(), most, time).await.unwrap();
        let names = names.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(fetched, FetchedNames { names, total: 5 });
    };
    check(3, &["a/", "b", "c"]).await;
    check(9, &["a/", "b", "c", "d", "e"]).await;
}
