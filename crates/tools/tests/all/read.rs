//! Pages, folders, images and refusals.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use everturn_tools::read::ReadTool;
use everturn_tools::settlement::SettlementRules;
use everturn_tools::{Context, Failure, SeenFiles, Tool, settle};
use serde_json::{Value, json};

use crate::harness::Project;

const IMAGE_MAX: u64 = 3_932_160;
const PDF_MAX: u64 = 20 * 1024 * 1024;

#[tokio::test]
async fn a_small_file_has_the_recorded_form() {
    let project = Project::new();
    let path = project.file("a.txt", "hello\nworld\n");
    let path = path.to_str().unwrap();
    let output = project.run(&ReadTool, json!({ "filePath": path })).await.unwrap();
    assert_eq!(
        output.output,
        format!(
            "<path>{path}</path>\n<type>file</type>\n<content>\n1: hello\n2: world\n\n\
             (End of file - total 2 lines)\n</content>"
        )
    );
    assert_eq!(output.title, "a.txt");
    let expected = json!({
        "preview": "hello\nworld",
        "truncated": false,
        "loaded": [],
        "display": {
            "type": "file",
            "path": path,
            "text": "hello\nworld",
            "lineStart": 1,
            "lineEnd": 2,
            "totalLines": 2,
            "truncated": false,
        },
    });
    assert_eq!(Value::Object(output.metadata), expected);
}

#[tokio::test]
async fn pages_say_where_to_go_on() {
    let project = Project::new();
    let text = (1..=2500).fold(String::new(), |mut text, n| {
        writeln!(text, "line {n}").unwrap();
        text
    });
    project.file("long", &text);
    let first = project.run(&ReadTool, json!({ "filePath": "long" })).await.unwrap();
    assert!(first.output.contains("\n2000: line 2000\n"));
    assert!(!first.output.contains("2001: "));
    assert!(first.output.contains("offset=2001"), "{}", &first.output[first.output.len() - 100..]);
    assert_eq!(first.metadata["truncated"], true);
    assert_eq!(first.metadata["display"]["totalLines"], 2500);
    let rest = project.run(&ReadTool, json!({ "filePath": "long", "offset": 2001 })).await.unwrap();
    assert!(rest.output.contains("<content>\n2001: line 2001\n"));
    assert!(rest.output.contains("(End of file - total 2500 lines)"));
    assert_eq!(rest.metadata["display"]["lineEnd"], 2500);
    let two = project.run(&ReadTool, json!({ "filePath": "long", "offset": 5, "limit": 2 })).await.unwrap();
    assert_eq!(two.metadata["display"]["text"], "line 5\nline 6");
    let past = project.run(&ReadTool, json!({ "filePath": "long", "offset": 9999 })).await;
    assert!(matches!(past, Err(Failure::Failed(text)) if text.contains("2500 lines")));
}

#[tokio::test]
async fn long_lines_and_large_pages_are_cut_between_characters() {
    let project = Project::new();
    project.file("wide", format!("{}\nshort", "ä€😀".repeat(50_000)));
    let output = project.run(&ReadTool, json!({ "filePath": "wide" })).await.unwrap();
    let shown = output.metadata["display"]["text"].as_str().unwrap();
    let line = shown.lines().next().unwrap();
    assert_eq!(line.chars().filter(|c| "ä€😀".contains(*c)).count(), 2000);
    assert!(line.ends_with("(line cut at 2000 characters)"));
    assert!(shown.ends_with("short"));
    project.file("many", format!("{}\n", "x".repeat(1000)).repeat(200));
    let output = project.run(&ReadTool, json!({ "filePath": "many" })).await.unwrap();
    assert!(output.metadata["display"]["text"].as_str().unwrap().len() <= 50 * 1024);
    assert_eq!(output.metadata["display"]["lineEnd"], 51);
    assert!(output.output.contains("(Lines 1-51 of 200; go on with offset=52)"));
}

#[tokio::test]
async fn marks_and_carriage_returns_are_not_shown() {
    let project = Project::new();
    project.file("dos", "\u{feff}one\r\ntwo\r\n");
    let output = project.run(&ReadTool, json!({ "filePath": "dos" })).await.unwrap();
    assert_eq!(output.metadata["display"]["text"], "one\ntwo");
    project.file("latin", b"caf\xe9\n");
    let output = project.run(&ReadTool, json!({ "filePath": "latin" })).await.unwrap();
    assert_eq!(output.metadata["display"]["text"], "caf\u{fffd}");
    project.file("empty", "");
    let output = project.run(&ReadTool, json!({ "filePath": "empty" })).await.unwrap();
    assert!(output.output.ends_with("<content>\n\n(End of file - total 0 lines)\n</content>"));
}

#[tokio::test]
async fn folders_are_listed() {
    let project = Project::new();
    project.file("b.txt", "");
    project.file("a/x", "");
    let output = project.run(&ReadTool, json!({ "filePath": "." })).await.unwrap();
    let dir = project.path("");
    let dir = dir.to_str().unwrap().trim_end_matches('/');
    let expected = format!(
        "<path>{dir}</path>\n<type>directory</type>\n<entries>\na/\nb.txt\n\n(2 entries)\n</entries>"
    );
    assert_eq!(output.output, expected);
    assert_eq!(output.metadata["display"]["entries"], json!(["a/", "b.txt"]));
}

#[tokio::test]
async fn a_page_past_the_end_of_a_folder_is_refused() {
    // It was an empty list, which reads like an empty folder.
    let project = Project::new();
    project.file("only/x", "");
    let page = async |offset: usize| {
        project
            .run(&ReadTool, json!({ "filePath": "only", "offset": offset }))
            .await
            .map(|output| output.output)
    };
    assert!(page(1).await.unwrap().ends_with("<entries>\nx\n\n(1 entry)\n</entries>"));
    let text = "Entry 2 is past the end of the folder, which has 1 entry.".to_owned();
    assert_eq!(page(2).await, Err(Failure::Failed(text)));
}

#[tokio::test]
async fn images_are_attached_by_content() {
    let project = Project::new();
    project.file("picture.txt", b"\x89PNG\r\n\x1a\n\0\0\0");
    let output = project.run(&ReadTool, json!({ "filePath": "picture.txt" })).await.unwrap();
    let [attachment] = &output.attachments[..] else { panic!() };
    assert_eq!(attachment.mime, "image/png");
    assert_eq!(attachment.url, "data:image/png;base64,iVBORw0KGgoAAAA=");
    assert_eq!(attachment.filename.as_deref(), Some("picture.txt"));
}

#[tokio::test]
async fn what_cannot_be_shown_is_refused() {
    let project = Project::new();
    project.file("blob", b"ab\0cd");
    let refused = project.run(&ReadTool, json!({ "filePath": "blob" })).await;
    assert!(matches!(&refused, Err(Failure::Failed(text)) if text.contains("binary")), "{refused:?}");
    project.file("notes.md", "");
    let absent = project.run(&ReadTool, json!({ "filePath": "notes" })).await.unwrap_err().to_string();
    let path = project.path("notes");
    assert_eq!(absent, format!("File not found: {}\nFiles with a similar name: notes.md", path.display()));
    let plain = project.run(&ReadTool, json!({ "filePath": "zzz" })).await.unwrap_err().to_string();
    assert_eq!(plain, format!("File not found: {}", project.path("zzz").display()));
    assert!(matches!(project.run(&ReadTool, json!({ "path": 1 })).await, Err(Failure::InvalidInput(_))));
}

#[tokio::test]
async fn documents_and_images_are_attached_up_to_their_limits() {
    let project = Project::new();
    let sized = |name: &str, start: &[u8], size: u64| {
        let mut file = File::create(project.path(name)).unwrap();
        file.write_all(start).unwrap();
        file.set_len(size).unwrap();
    };
    for (start, mime, most) in [
        (&b"\x89PNG\r\n\x1a\n"[..], "image/png", IMAGE_MAX),
        (b"\xff\xd8\xff\xe0", "image/jpeg", IMAGE_MAX),
        (b"GIF89a", "image/gif", IMAGE_MAX),
        (b"RIFF\0\0\0\0WEBP", "image/webp", IMAGE_MAX),
        (b"%PDF-1.7\n", "application/pdf", PDF_MAX),
    ] {
        sized("f", start, most);
        let output = project.run(&ReadTool, json!({ "filePath": "f" })).await.unwrap();
        let [attachment] = &output.attachments[..] else { panic!("{mime}") };
        let head = format!("data:{mime};base64,");
        assert_eq!((&*attachment.mime, attachment.filename.as_deref()), (mime, Some("f")));
        assert!(attachment.url.starts_with(&head), "{mime}");
        assert_eq!((attachment.url.len() - head.len()) as u64, most.div_ceil(3) * 4);
        assert!(output.shaped && output.output.contains(&most.to_string()), "{}", output.output);
        sized("f", start, most + 1);
        let text = project.run(&ReadTool, json!({ "filePath": "f" })).await.unwrap_err().to_string();
        assert!(text.contains(&format!("at most {most} can be attached. Use `bash`")), "{text}");
    }
}

#[tokio::test]
async fn a_read_is_remembered_as_the_whole_file() {
    let project = Project::new();
    let seen = Arc::<SeenFiles>::default();
    let path = project.file("f", "one\ntwo\nthree\n");
    symlink("f", project.path("link")).unwrap();
    project.file("dir/x", "");
    for input in [json!({ "filePath": "link", "limit": 1 }), json!({ "filePath": "dir" })] {
        let output = project.run_in(&seen, &ReadTool, input).await.unwrap();
        assert!(output.shaped);
    }
    let print = blake3::hash(b"one\ntwo\nthree\n").to_hex().to_string();
    assert_eq!((seen.last(&path), seen.shown(&path)), (Some(print), true));
    assert_eq!(seen.last(&project.path("link")), None);
    fs::remove_file(&path).unwrap();
    project.run_in(&seen, &ReadTool, json!({ "filePath": "f" })).await.unwrap_err();
    assert_eq!(seen.last(&path), None, "a file that is gone is forgotten");
}

#[tokio::test]
async fn a_cancelled_read_stops() {
    let project = Project::new();
    project.file("f", "x");
    let input = json!({ "filePath": "f" });
    let granted = ReadTool.needs(&input, &project.scope).unwrap().into();
    let context = Context { granted, ..project.context().0 };
    context.cancel.cancel();
    assert_eq!(ReadTool.run(input, context).await, Err(Failure::Cancelled));
}

#[tokio::test]
async fn nothing_is_read_that_was_not_permitted() {
    let project = Project::new();
    project.file("f", "x");
    project.file("g", "y");
    let needs = ReadTool.needs(&json!({ "filePath": "f" }), &project.scope).unwrap();
    let other = project.run_with(needs, &ReadTool, json!({ "filePath": "g" })).await;
    assert!(matches!(&other, Err(Failure::Failed(text)) if text.contains("permitted")), "{other:?}");
}

/// A page of more lines than a result may have was cut in its middle when the call was settled.
#[tokio::test]
async fn a_page_is_whole_however_many_lines_are_asked_for() {
    let project = Project::new();
    project.file("f", (1..=9000).map(|n| format!("{n}\n")).collect::<String>());
    let input = json!({ "filePath": "f", "offset": 3, "limit": 9000 });
    let granted = ReadTool.needs(&input, &project.scope).unwrap().into();
    let context = Context { granted, ..project.context().0 };
    let output = settle(&ReadTool, input, context, SettlementRules::default()).await.unwrap();
    let lines: Vec<&str> = output.output.lines().collect();
    assert_eq!((lines[3], lines[2002]), ("3: 3", "2002: 2002"));
    assert_eq!(lines[2004..], ["(Lines 3-2002 of 9000; go on with offset=2003)", "</content>"]);
    assert_eq!(output.output_path, None);
}
