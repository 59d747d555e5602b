//! Fetching pages from a server that means no good.

use std::time::{Duration, Instant};

use everturn_tools::webfetch::WebfetchTool;
use everturn_tools::{Attachment, Failure, Output, Tool as _};
use serde_json::{Value, json};

use crate::harness::Project;
use crate::server::{Answer, Server, Tail};

const HTML: [(&str, &str); 1] = [("content-type", "text/html")];

async fn fetch(input: Value) -> Result<Output, Failure> {
    let started = Instant::now();
    let result = Project::new().run(&WebfetchTool::default(), input.clone()).await;
    assert!(started.elapsed() < Duration::from_secs(20), "{input} took too long");
    result
}

async fn failure(input: Value) -> String {
    match fetch(input).await {
        Err(Failure::Failed(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_page_is_shown_in_three_forms() {
    let html = "<!doctype html><html><head><title>The &amp; page</title><style>p{}</style></head><body>\
                <script>alert('<p>no</p>')</script><noscript>no</noscript><h2>Part</h2><p>Some <b>bold</b> \
                <a href='/x?a=1&amp;b=2'>link</a> &lt;tag&gt;.</p><ul><li>one<li>two</ul>\
                <pre><code class=language-rust>fn  main() {\n}</code></pre></body></html>";
    let server = Server::start(move |_| Answer::page(html)).await;
    let url = server.url("/page");
    let output = fetch(json!({ "url": url })).await.unwrap();
    assert_eq!(
        output,
        Output {
            title: format!("{url} (text/html)"),
            output: format!(
                "# The & page\n\n## Part\n\nSome **bold** [link]({}) \\<tag>.\n\n- one\n- two\n\n```rust\nfn  main() {{\n}}\n```",
                server.url("/x?a=1&b=2")
            ),
            metadata: json!({ "url": url, "contentType": "text/html", "bytes": html.len() })
                .as_object()
                .unwrap()
                .clone(),
            ..Output::default()
        }
    );
    let text = fetch(json!({ "url": url, "format": "text" })).await.unwrap().output;
    assert_eq!(text, "The & page\n\nPart\n\nSome bold link <tag>.\n\n- one\n- two\n\nfn  main() {\n}");
    assert_eq!(fetch(json!({ "url": url, "format": "html" })).await.unwrap().output, html);
    let request = server.requests().remove(0).to_ascii_lowercase();
    assert!(request.contains("accept-encoding: identity\r\n"), "{request}");
    for header in ["cookie:", "authorization:", "referer:"] {
        assert!(!request.contains(header), "{request}");
    }
}

#[tokio::test]
async fn texts_and_character_sets() {
    let server = Server::start(|path| match path {
        "/json" => Answer::new(200, &[("content-type", "application/json")], "{\"a\": \"<b>\"}"),
        "/header" => Answer::new(200, &[("content-type", "text/plain; charset=ISO-8859-1")], b"caf\xe9"),
        "/meta" => Answer::new(200, &HTML, b"<meta charset=\"latin1\"><p>caf\xe9"),
        "/guess" => Answer::new(200, &[("content-type", "text/plain")], b"caf\xe9"),
        "/japanese" => {
            Answer::new(200, &[("content-type", "text/html; charset=Shift_JIS")], b"<p>\x93\xfa\x96\x7b")
        }
        "/bom" => Answer::new(200, &[("content-type", "text/plain")], b"\xff\xfec\0a\0f\0\xe9\0"),
        "/nothing" => Answer::new(200, &[], "<!DOCTYPE html><p>caf\u{e9}"),
        "/vague" => Answer::new(200, &[("content-type", "application/octet-stream")], "plain"),
        "/empty" => Answer::new(204, &[], ""),
        _ => Answer::new(500, &[], ""),
    })
    .await;
    for (path, expected) in [
        ("/json", "{\"a\": \"<b>\"}"),
        ("/header", "café"),
        ("/meta", "café"),
        ("/guess", "café"),
        ("/japanese", "日本"),
        ("/bom", "café"),
        ("/nothing", "café"),
        ("/vague", "plain"),
        ("/empty", "(The page is empty.)"),
    ] {
        assert_eq!(fetch(json!({ "url": server.url(path) })).await.unwrap().output, expected, "{path}");
    }
}

#[tokio::test]
async fn images_are_attached_and_other_files_refused() {
    let server = Server::start(|path| match path {
        "/a.png" => Answer::new(200, &[("content-type", "image/png")], b"\x89PNG\r\n\x1a\nxyz"),
        "/fake.png" => Answer::new(200, &[("content-type", "image/png")], b"no\0image"),
        "/a.pdf" => Answer::new(200, &[("content-type", "application/pdf")], "%PDF-1.7"),
        _ => Answer::new(200, &[("content-type", "application/octet-stream")], b"a\0b"),
    })
    .await;
    let output = fetch(json!({ "url": server.url("/a.png") })).await.unwrap();
    assert_eq!(
        output.attachments,
        [Attachment {
            mime: "image/png".to_owned(),
            url: "data:image/png;base64,iVBORw0KGgp4eXo=".to_owned(),
            filename: Some("a.png".to_owned()),
        }]
    );
    for (path, what) in [
        ("/fake.png", "image/png, 8 bytes"),
        ("/a.pdf", "application/pdf, 8 bytes"),
        ("/x", "application/octet-stream, 3 bytes"),
    ] {
        let text = failure(json!({ "url": server.url(path) })).await;
        assert!(text.contains(what) && text.contains("`bash`"), "{text}");
    }
}

#[tokio::test]
async fn redirects_are_followed_only_where_permission_reaches() {
    let other = Server::start(|_| Answer::page("other")).await;
    let port = other.port;
    let server = Server::start(move |path| match path {
        "/page" => Answer::page("<p>here"),
        "/relative" => Answer::redirect("page"),
        "/absolute-path" => Answer::redirect("/page#part"),
        "/twice" => Answer::redirect("/relative"),
        "/endless-body" => {
            Answer::head(302, &[("location", "/page")]).then(Tail::Repeat(b"and so on and so on "))
        }
        "/port" => Answer::redirect(&format!("http://127.0.0.1:{port}/x")),
        "/name" => Answer::redirect(&format!("http://localhost:{port}/x")),
        "/protocol-relative" => Answer::redirect(&format!("//localhost:{port}/x")),
        "/cloud" => Answer::redirect("http://169.254.169.254/latest/meta-data/"),
        "/file" => Answer::redirect("file:///etc/passwd"),
        "/user" => Answer::redirect("http://admin:hunter2@127.0.0.1/"),
        "/backslash" => Answer::redirect("\\\\evil.example\\x"),
        _ => Answer::new(404, &[], "gone"),
    })
    .await;
    for path in ["/relative", "/absolute-path", "/twice", "/endless-body"] {
        let output = fetch(json!({ "url": server.url(path) })).await.unwrap();
        assert_eq!(
            (output.output.as_str(), &output.metadata["url"]),
            ("here", &json!(server.url("/page"))),
            "{path}"
        );
    }
    let before = server.requests().len();
    let cases = [
        ("/port", format!("http://127.0.0.1:{port}/x"), "is another port"),
        ("/name", format!("http://localhost:{port}/x"), "is another host"),
        ("/protocol-relative", format!("http://localhost:{port}/x"), "is another host"),
        ("/cloud", "http://169.254.169.254/latest/meta-data/".to_owned(), "is another host"),
        ("/file", "file:///etc/passwd".to_owned(), "is no web address"),
        ("/user", "http://127.0.0.1/".to_owned(), "carries a user name or password"),
        ("/backslash", "http://evil.example/x".to_owned(), "is another host"),
    ];
    let asked = cases.len();
    for (path, target, reason) in cases {
        let output = fetch(json!({ "url": server.url(path) })).await.unwrap();
        assert_eq!(output.metadata["redirect"], target, "{path}");
        assert!(output.output.contains(&target) && output.output.contains(reason), "{}", output.output);
        assert!(!output.output.contains("hunter2"), "{}", output.output);
        assert_eq!(
            output.output.contains("Call `webfetch`"),
            target.starts_with("http"),
            "{}",
            output.output
        );
    }
    assert_eq!((server.requests().len(), other.requests().len()), (before + asked, 0));
}

#[tokio::test]
async fn redirects_that_lead_nowhere_end() {
    let server = Server::start(|path| match path {
        "/loop" => Answer::redirect("/pool"),
        "/pool" => Answer::redirect("/loop"),
        "/self" => Answer::redirect("/self"),
        "/missing" => Answer::new(302, &[], "where?"),
        "/invalid" => Answer::redirect("http://[nonsense"),
        "/control" => Answer::redirect("http://:0/"),
        "/304" => Answer::new(304, &[], ""),
        path => {
            let step: usize = path.strip_prefix("/chain/").unwrap().parse().unwrap();
            if step == 5 {
                Answer::page("<p>five")
            } else {
                Answer::redirect(&format!("/chain/{}", step + 1))
            }
        }
    })
    .await;
    for (path, reason) in [
        ("/loop", "redirects in a circle"),
        ("/self", "redirects in a circle"),
        ("/missing", "without saying where to go"),
        ("/invalid", "which is not an address"),
        ("/control", "which is not an address"),
        ("/304", "answered 304"),
        ("/chain/6", "after 5 redirects"),
    ] {
        let before = server.requests().len();
        let text = failure(json!({ "url": server.url(path) })).await;
        assert!(text.contains(reason), "{path}: {text}");
        assert!(server.requests().len() - before <= 6, "{path}");
    }
    assert_eq!(fetch(json!({ "url": server.url("/chain/0") })).await.unwrap().output, "five");
}

#[tokio::test]
async fn bodies_are_bounded() {
    const MIB: usize = 1024 * 1024;
    let server = Server::start(|path| match path {
        "/five" => Answer::new(200, &[("content-type", "text/plain")], "x".repeat(5 * MIB)),
        "/six" => Answer::new(200, &HTML, "x".repeat(6 * MIB)),
        "/claim" => Answer::head(200, &[("content-length", "99999999999")]).then(Tail::Hang),
        "/endless" => Answer::head(200, &HTML).then(Tail::Repeat(&[b'x'; 65536])),
        "/chunked" => {
            let chunk: &'static str = format!("4000\r\n{}\r\n", "x".repeat(0x4000)).leak();
            Answer::head(200, &[("transfer-encoding", "chunked")]).then(Tail::Repeat(chunk.as_bytes()))
        }
        "/short" => Answer::head(200, &[("content-length", "100")]),
        "/gzip" => Answer::new(200, &[("content-encoding", "gzip")], b"\x1f\x8b"),
        "/headers" => {
            let mut answer = Answer::head(200, &[]);
            answer.0.truncate(answer.0.len() - 2);
            answer.then(Tail::Repeat(b"x-more: and more\r\n"))
        }
        _ => Answer(b"not http at all\r\n\r\n".to_vec(), Tail::Close),
    })
    .await;
    assert_eq!(fetch(json!({ "url": server.url("/five") })).await.unwrap().output.len(), 5 * MIB);
    for (path, reason) in [
        ("/six", "more than 5242880 bytes"),
        ("/claim", "more than 5242880 bytes"),
        ("/endless", "more than 5242880 bytes"),
        ("/chunked", "more than 5242880 bytes"),
        ("/short", "broke off"),
        ("/gzip", "compressed (gzip)"),
        ("/headers", "could not be fetched"),
        ("/noise", "could not be fetched"),
    ] {
        let text = failure(json!({ "url": server.url(path) })).await;
        assert!(text.contains(reason), "{path}: {text}");
    }
}

#[tokio::test]
async fn slow_servers_run_out_of_time() {
    let server = Server::start(|path| match path {
        "/drip" => Answer::head(200, &HTML).then(Tail::Drip),
        "/redirect" => Answer::redirect("/silent"),
        _ => Answer(Vec::new(), Tail::Hang),
    })
    .await;
    for path in ["/drip", "/silent", "/redirect"] {
        let text = failure(json!({ "url": server.url(path), "timeout": 0.3 })).await;
        assert!(text.contains("was not there after 0.3 s"), "{path}: {text}");
    }
}

#[tokio::test]
async fn a_fetch_can_be_cancelled() {
    let server = Server::start(|_| Answer(Vec::new(), Tail::Hang)).await;
    let project = Project::new();
    let (context, _reports) = project.context();
    let cancel = context.cancel.clone();
    let tool = WebfetchTool::default();
    let call = tool.run(json!({ "url": server.url("/") }), context);
    let (result, ()) = tokio::join!(call, async {
        server.asked().await;
        cancel.cancel();
    });
    assert_eq!(result.unwrap_err(), Failure::Cancelled);
}

#[tokio::test]
async fn errors_show_what_the_server_says() {
    let server = Server::start(|path| match path {
        "/html" => Answer::new(404, &HTML, "<title>Gone</title><h1>No such page</h1><script>x</script>"),
        "/long" => Answer::new(500, &[("content-type", "text/plain")], "y".repeat(100_000)),
        "/endless" => Answer::head(503, &[("content-type", "text/plain")]).then(Tail::Repeat(b"busy ")),
        _ => Answer::new(410, &[], ""),
    })
    .await;
    let text = failure(json!({ "url": server.url("/html") })).await;
    assert_eq!(text, format!("{} answered 404 Not Found:\n\nGone\n\nNo such page", server.url("/html")));
    for path in ["/long", "/endless"] {
        let text = failure(json!({ "url": server.url(path) })).await;
        assert!((2000..2200).contains(&text.len()), "{path} {}", text.len());
    }
    assert!(failure(json!({ "url": server.url("/") })).await.ends_with("answered 410 Gone."));
    let closed = Server::start(|_| Answer::page("")).await.url("/");
    let text = failure(json!({ "url": closed })).await;
    assert!(text.contains("could not be fetched"), "{text}");
}

#[tokio::test]
async fn a_challenge_is_met_with_an_honest_name() {
    let server = Server::start_with(|request| {
        if request.to_ascii_lowercase().contains("user-agent: mozilla") {
            Answer::new(403, &[("cf-mitigated", "challenge")], "are you a browser?")
        } else {
            Answer::page("<p>welcome")
        }
    })
    .await;
    assert_eq!(fetch(json!({ "url": server.url("/") })).await.unwrap().output, "welcome");
    assert_eq!(server.requests().len(), 2);
    let stubborn = Server::start(|_| Answer::new(403, &[("cf-mitigated", "challenge")], "no")).await;
    assert!(failure(json!({ "url": stubborn.url("/") })).await.contains("answered 403 Forbidden:\n\nno"));
    assert_eq!(stubborn.requests().len(), 2);
}

/// A page nested as deep as it can be broke parsers by their stack or kept them busy for hours.
#[tokio::test]
async fn hostile_markup_is_converted_in_bounds() {
    let shapes = [
        ("/divs", "<div>".repeat(100_000)),
        ("/quotes", "<blockquote>".repeat(50_000) + &"<br>".repeat(60_000)),
        ("/lists", "<ul><li>".repeat(30_000)),
        ("/fonts", (0..20_000).map(|n| format!("<p><b id={n}><i>x")).collect()),
        ("/tables", "<table><tr><td>".repeat(20_000)),
        ("/svg", "<svg><td>".repeat(100_000)),
        ("/open", "<a href='".repeat(50_000) + "'>"),
        ("/script", "<script".repeat(100_000) + "></script>"),
    ];
    let paths = shapes.each_ref().map(|(path, _)| *path);
    let server = Server::start(move |path| {
        let (_, html) = shapes.iter().find(|(name, _)| *name == path).unwrap();
        Answer::page(format!("{html}needle"))
    })
    .await;
    for path in paths {
        for format in ["markdown", "text"] {
            let output = fetch(json!({ "url": server.url(path), "format": format })).await.unwrap().output;
            assert!(output.contains("needle"), "{path} {format}");
            assert!(output.len() < 20_000_000, "{path} {format} {}", output.len());
        }
    }
}

#[test]
fn permission_shows_where_a_call_goes() {
    let scope = Project::new().scope;
    let tool = WebfetchTool::default();
    let (far, near) = (&["webfetch"][..], &["webfetch", "local_network"][..]);
    for (url, pattern, always, permissions) in [
        ("https://Example.com/a b?q#part", "https://example.com/a%20b?q", "https://example.com/*", far),
        ("http://example.com:8080", "http://example.com:8080/", "http://example.com:8080/*", far),
        // However an address is spelt, the rule sees where it leads.
        ("http://0x7f.1/", "http://127.0.0.1/", "http://127.0.0.1/*", near),
        ("http://[::1]:3000/x", "http://[::1]:3000/x", "http://[::1]:3000/*", near),
        ("http://localhost:4096/session", "http://localhost:4096/session", "http://localhost:4096/*", near),
        ("http://169.254.169.254/latest", "http://169.254.169.254/latest", "http://169.254.169.254/*", near),
        ("http://10.0.0.1/", "http://10.0.0.1/", "http://10.0.0.1/*", near),
        ("http://wiki/", "http://wiki/", "http://wiki/*", near),
    ] {
        let needs = tool.needs(&json!({ "url": url }), &scope).unwrap();
        let asked: Vec<&str> = needs.iter().map(|need| need.permission.as_str()).collect();
        assert_eq!(asked, permissions, "{url}");
        for need in &needs {
            assert_eq!(need.patterns, [pattern]);
            assert_eq!(need.always, [always]);
            assert_eq!(Value::Object(need.metadata.clone()), json!({ "url": pattern, "format": "markdown" }));
        }
    }
    for (input, reason) in [
        (json!({ "url": "example.com" }), "begins with http:// or https://"),
        (json!({ "url": "file:///etc/passwd" }), "only http and https"),
        (json!({ "url": "ftp://example.com/" }), "only http and https"),
        (json!({ "url": "data:text/html,x" }), "only http and https"),
        (json!({ "url": "https://user:secret@example.com/" }), "user name or password"),
        (json!({ "url": format!("https://a.example/{}", "x".repeat(9000)) }), "too long"),
        (json!({ "url": "https://a.example/", "timeout": 0 }), "timeout"),
        (json!({ "url": "https://a.example/", "timeout": 121 }), "timeout"),
        (json!({ "url": "https://a.example/", "format": "pdf" }), "unknown variant `pdf`"),
    ] {
        let failure = tool.needs(&input, &scope).unwrap_err();
        assert!(
            matches!(&failure, Failure::InvalidInput(text) if text.contains(reason)),
            "{input}: {failure}"
        );
        assert!(!failure.to_string().contains("secret"));
    }
}
