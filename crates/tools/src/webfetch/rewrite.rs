//! Rewrites the markup of a page, so that converting it is safe.
//!
//! The HTML standard says what a parser must make of any text, and some texts make it do a lot: elements nested a
//! million deep, or formatting that is opened again in every paragraph. Here the few elements that Markdown knows are
//! written out once more, each closed where it ends, nested only so deep, and only so many. All text is kept; what
//! falls away is structure that nobody could show.

use url::Url;

use super::markup::{MarkupToken, MarkupTokens, attribute};

/// How deep elements may be nested.
const DEPTH: usize = 80;
/// How many lists and quotes may be nested: each level adds to each line in it.
const INDENTED: usize = 8;
/// How many tables may be nested.
const TABLES: usize = 2;
/// How many tags a page may have; the text of what follows has none.
const TAGS: usize = 150_000;
/// The longest address of a link.
const LINK_MAX: usize = 2000;

/// The page as clean HTML, links made absolute, and its title.
pub(super) fn rewrite(html: &str, base: &Url) -> (String, Option<String>) {
    let mut page =
        MarkupRewrite { out: String::with_capacity(html.len() / 2), open: Vec::new(), tags: 0, base };
    let mut title = None;
    for token in MarkupTokens::new(html) {
        match token {
            MarkupToken::Text(text) => page.text(text),
            MarkupToken::Title(text) => {
                title.get_or_insert_with(|| text.to_owned());
            }
            MarkupToken::Start(name, attributes) => page.start(&name, attributes),
            MarkupToken::End(name) => page.end(&name),
        }
    }
    page.close_to(0);
    (page.out, title)
}

#[derive(Debug)]
struct MarkupRewrite<'a> {
    out: String,
    /// The elements that are open, as they are written.
    open: Vec<&'static str>,
    tags: usize,
    base: &'a Url,
}

/// What an element is written as; nothing for one that is only left out.
fn known(name: &str) -> Option<&'static str> {
    Some(match name {
        "div" | "section" | "article" | "main" | "nav" | "header" | "footer" | "aside" | "figure"
        | "figcaption" | "address" | "details" | "summary" | "form" | "fieldset" | "center" | "dl" | "dt"
        | "dd" | "caption" => "div",
        "p" => "p",
        "h1" => "h1",
        "h2" => "h2",
        "h3" => "h3",
        "h4" => "h4",
        "h5" => "h5",
        "h6" => "h6",
        "ul" | "menu" => "ul",
        "ol" => "ol",
        "li" => "li",
        "table" => "table",
        "thead" => "thead",
        "tbody" | "tfoot" => "tbody",
        "tr" => "tr",
        "th" => "th",
        "td" => "td",
        "blockquote" => "blockquote",
        "pre" | "listing" => "pre",
        "a" => "a",
        "b" | "strong" => "strong",
        "i" | "em" | "cite" => "em",
        "code" | "kbd" | "samp" | "tt" => "code",
        "br" => "br",
        "hr" => "hr",
        "img" => "img",
        _ => return None,
    })
}

fn inline(name: &str) -> bool {
    matches!(name, "a" | "strong" | "em" | "code")
}

fn of_table(name: &str) -> bool {
    matches!(name, "table" | "thead" | "tbody" | "tr" | "th" | "td")
}

impl MarkupRewrite<'_> {
    fn text(&mut self, text: &str) {
        for piece in text.split('\0') {
            // Characters that are written by name stay so; a `<` that began no tag must not begin one now.
            self.out.push_str(&piece.replace('<', "&lt;"));
        }
    }

    fn start(&mut self, name: &str, attributes: &str) {
        let Some(name) = known(name) else { return };
        if self.tags >= TAGS {
            self.out.push(' ');
            return;
        }
        match name {
            "br" => return self.write("<br>"),
            "hr" => {
                self.leave_paragraph();
                return self.write("<hr>");
            }
            "img" => return self.image(attributes),
            _ if !inline(name) => self.leave_paragraph(),
            _ => {}
        }
        match name {
            "li" => self.leave("li", &["ul", "ol"]),
            "tr" => self.leave("tr", &["table"]),
            "thead" | "tbody" => {
                self.leave("thead", &["table"]);
                self.leave("tbody", &["table"]);
            }
            "td" | "th" => {
                self.leave("td", &["tr", "table"]);
                self.leave("th", &["tr", "table"]);
            }
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                if let Some(at) = self.open.iter().rposition(|open| !inline(open))
                    && self.open.get(at).is_some_and(|open| matches!(open.as_bytes(), [b'h', b'1'..=b'6']))
                {
                    self.close_to(at);
                }
            }
            _ => {}
        }
        if !self.fits(name) {
            if !inline(name) {
                self.out.push(' ');
            }
            return;
        }
        match name {
            "a" => {
                let link = attribute(attributes, "href").and_then(|href| self.link(&href));
                let Some(link) = link else { return };
                self.write(&format!("<a href=\"{link}\">"));
            }
            "code" | "pre" => {
                let class = attribute(attributes, "class").unwrap_or_default();
                let language = class.split_whitespace().find(|class| {
                    class.starts_with("language-")
                        && class.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_+#.".contains(&byte))
                });
                match language {
                    Some(language) => self.write(&format!("<{name} class=\"{language}\">")),
                    None => self.write(&format!("<{name}>")),
                }
            }
            "ol" => match attribute(attributes, "start").and_then(|start| start.trim().parse::<u32>().ok()) {
                Some(start) => self.write(&format!("<ol start=\"{start}\">")),
                None => self.write("<ol>"),
            },
            _ => self.write(&format!("<{name}>")),
        }
        self.open.push(name);
    }

    /// Whether there is room for an element here, and it means something.
    fn fits(&self, name: &str) -> bool {
        let count = |wanted: &[&str]| self.open.iter().filter(|open| wanted.contains(open)).count();
        if self.open.len() >= DEPTH {
            return false;
        }
        match name {
            "ul" | "ol" | "blockquote" => count(&["ul", "ol", "blockquote"]) < INDENTED,
            "table" => count(&["table"]) < TABLES,
            "thead" | "tbody" => self.open.last() == Some(&"table"),
            "tr" => matches!(self.open.last(), Some(&("table" | "thead" | "tbody"))),
            "td" | "th" => self.open.last() == Some(&"tr"),
            "pre" => count(&["pre"]) == 0,
            // Twice bold is bold.
            _ if inline(name) => count(&[name]) == 0,
            _ => true,
        }
    }

    fn end(&mut self, name: &str) {
        let Some(name) = known(name) else { return };
        // What is outside a table cell is not closed from within.
        let wall = |open: &str| matches!(open, "td" | "th") && !of_table(name);
        let found = self.open.iter().rev().take_while(|open| !wall(open)).position(|open| *open == name);
        if let Some(from_top) = found {
            self.close_to(self.open.len() - 1 - from_top);
        }
    }

    /// Closes an open element of a name, unless one of the others is around it.
    fn leave(&mut self, name: &str, within: &[&str]) {
        let found =
            self.open.iter().rev().take_while(|open| !within.contains(open)).position(|open| *open == name);
        if let Some(from_top) = found {
            self.close_to(self.open.len() - 1 - from_top);
        }
    }

    /// A block ends the paragraph before it.
    fn leave_paragraph(&mut self) {
        if let Some(at) = self.open.iter().rposition(|open| !inline(open))
            && self.open.get(at) == Some(&"p")
        {
            self.close_to(at);
        }
    }

    fn close_to(&mut self, depth: usize) {
        while self.open.len() > depth {
            let Some(name) = self.open.pop() else { return };
            self.out.push_str(&format!("</{name}>"));
        }
    }

    fn image(&mut self, attributes: &str) {
        let Some(link) = attribute(attributes, "src").and_then(|source| self.link(&source)) else { return };
        let text = attribute(attributes, "alt").unwrap_or_default();
        let text = escape(&text.split_whitespace().collect::<Vec<_>>().join(" "));
        self.write(&format!("<img src=\"{link}\" alt=\"{text}\">"));
    }

    /// The whole address of a link to the web, ready to be written; nothing for others.
    fn link(&self, link: &str) -> Option<String> {
        if link.len() > LINK_MAX {
            return None;
        }
        let link = self.base.join(link.trim()).ok()?;
        matches!(link.scheme(), "http" | "https" | "mailto").then(|| escape(link.as_str()))
    }

    fn write(&mut self, tag: &str) {
        self.tags += 1;
        self.out.push_str(tag);
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;").replace('\0', "")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(html: &str, expected: &str) {
        let base = Url::parse("https://a.example/x/y").unwrap();
        assert_eq!(rewrite(html, &base).0, expected, "{html}");
    }

    #[test]
    fn elements_are_closed_where_they_end() {
        check("<section><P>a<b>b<p>c</section>d", "<div><p>a<strong>b</strong></p><p>c</p></div>d");
        check("<ul><li>a<li>b<ul><li>c</ul></ul>", "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>");
        check(
            "<a href=../z?q=1&amp;r>x</a><a name=n>y</a>",
            "<a href=\"https://a.example/z?q=1&amp;r\">x</a>y",
        );
        check(
            "<a href=javascript:x>x</a><img src=data:x alt=y><img src=i.png alt='\"'>",
            "x<img src=\"https://a.example/x/i.png\" alt=\"&quot;\">",
        );
        check(
            "<div><table><tr><td>a</div><td>b<tr><th>c</table>d",
            "<div><table><tr><td>a</td><td>b</td></tr><tr><th>c</th></tr></table>d</div>",
        );
        check("<td>a<b><b>b</b>c 1 < 2", " a<strong>b</strong>c 1 &lt; 2");
        check("<pre><code class='hl language-rust'>x", "<pre><code class=\"language-rust\">x</code></pre>");
        check("<h1>a<h2>b</h2>", "<h1>a</h1><h2>b</h2>");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Whatever comes in, what goes out is nested properly, and not too deep.
        #[test]
        fn the_result_is_well_formed(pieces in proptest::collection::vec(
            prop_oneof![
                proptest::sample::select(vec!["p", "div", "b", "i", "a href=x", "ul", "li", "table", "tr", "td", "th",
                    "h1", "pre", "code", "blockquote", "tbody", "svg", "title", "br", "x-y"]).prop_map(|n| format!("<{n}>")),
                proptest::sample::select(vec!["p", "div", "b", "a", "ul", "li", "table", "tr", "td", "svg", "title", "x-y"])
                    .prop_map(|n| format!("</{n}>")),
                "[a<>&\"'= ]{0,4}",
            ], 0..200)) {
            let html = pieces.concat();
            let base = Url::parse("https://a.example/").unwrap();
            let (out, _) = rewrite(&html, &base);
            let mut open = Vec::new();
            for token in MarkupTokens::new(&out) {
                match token {
                    MarkupToken::Start(name, _) if name != "br" => open.push(name),
                    MarkupToken::End(name) => prop_assert_eq!(open.pop(), Some(name)),
                    _ => {}
                }
                prop_assert!(open.len() <= DEPTH);
            }
            prop_assert!(open.is_empty());
        }
    }
}
