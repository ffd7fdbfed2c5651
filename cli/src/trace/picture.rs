//! Pictures for files and for pages: their ink is the text's colour, so that a page is
//! readable in light and dark. (What `plot.rs` draws with has fixed colours.)
//!
//! ```text
//! png  the same in pixels
//! ```

mod png;

use crate::output::shown;
use crate::target;
use std::fmt::Write;
use std::path::Path;

/// Red, green and blue.
pub(super) type Color = [u8; 3];

/// Okabe and Ito's (2008), as in `plot.rs`.
pub(super) const BLUE: Color = [0x00, 0x72, 0xb2];
/// A colour for each word of [`CLASSES`](super::word::CLASSES).
pub(super) const COLORS: [Color; 8] = [
    BLUE,
    [0x00, 0x9e, 0x73],
    [0xe6, 0x9f, 0x00],
    [0xd5, 0x5e, 0x00],
    [0xcc, 0x79, 0xa7],
    [0x56, 0xb4, 0xe9],
    [0xf0, 0xe4, 0x42],
    [0x88, 0x88, 0x88],
];
/// Of text and lines in a file, which is white.
const INK: Color = [0x28; 3];
const FRAME_OPACITY: f64 = 0.4;
/// The least width of one that is wider, in a page.
const READABLE: u32 = 760;

/// A picture.
#[derive(Clone, Debug)]
pub(super) struct Picture {
    width: f64,
    height: f64,
    shapes: Vec<Shape>,
}

type Point = (f64, f64);

#[derive(Clone, Debug)]
enum Shape {
    Text { at: Point, anchor: Anchor, size: u32, text: String },
    Rectangle { corner: Point, size: Point, color: Color, opacity: f64, says: String },
    Frame { corner: Point, size: Point },
    Line { from: Point, to: Point, opacity: f64 },
}

/// What of a text is at its place.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// Text as XML and HTML have it; what these cannot have is left out.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => (),
            c if c.is_control() => (),
            c => out.push(c),
        }
    }
    out
}

impl Picture {
    pub(super) fn new(width: f64, height: f64) -> Picture {
        Picture { width, height, shapes: Vec::new() }
    }

    /// Text whose baseline begins, ends or has its middle here.
    pub(super) fn text(&mut self, at: Point, anchor: Anchor, size: u32, text: &str) {
        self.shapes.push(Shape::Text { at, anchor, size, text: shown(text).into_owned() });
    }

    /// A rectangle that lets what is behind through, unless its opacity is 1; what it says is
    /// shown where a pointer rests on it.
    pub(super) fn rectangle(
        &mut self,
        corner: Point,
        size: Point,
        (color, opacity): (Color, f64),
        says: &str,
    ) {
        let says = shown(says).into_owned();
        self.shapes.push(Shape::Rectangle { corner, size, color, opacity, says });
    }

    /// The border of a rectangle.
    pub(super) fn frame(&mut self, corner: Point, size: Point) {
        self.shapes.push(Shape::Frame { corner, size });
    }

    /// A line of the text's colour.
    pub(super) fn line(&mut self, from: Point, to: Point, opacity: f64) {
        self.shapes.push(Shape::Line { from, to, opacity });
    }

    fn element(&self, attributes: &str, ground: &str) -> String {
        let Picture { width, height, shapes } = self;
        let mut body = String::new();
        for shape in shapes {
            // A String takes all.
            let _ = shape.append_to(&mut body);
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             {attributes} fill=\"currentColor\" font-family=\"Helvetica, Arial, sans-serif\">\n\
             {ground}{body}</svg>\n"
        )
    }

    /// As a part of a page, no wider than this, and no narrower than can be read.
    pub(super) fn inline(&self, says: &str) -> String {
        let (says, width) = (escape(says), self.width);
        let style = format!(
            "role=\"img\" aria-label=\"{says}\" style=\"max-width:{width:.0}px;min-width:min({width:.0}px,{READABLE}px)\""
        );
        self.element(&style, "")
    }

    /// As a file of its own, on white.
    fn standalone(&self) -> String {
        let Picture { width, height, .. } = self;
        let [red, green, blue] = INK;
        let size = format!(
            "width=\"{width:.0}\" height=\"{height:.0}\" color=\"#{red:02x}{green:02x}{blue:02x}\""
        );
        self.element(&size, "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n")
    }

    /// Writes it as SVG.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write_svg(&self, path: &Path) -> Result<(), String> {
        write(path, self.standalone().as_bytes())
    }

    /// Writes it as PNG.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write_png(&self, path: &Path) -> Result<(), String> {
        let png = png::encoded(self)
            .map_err(|e| format!("cannot draw the chart {}: {e}", path.display()))?;
        write(path, &png)
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    target::replace(path, bytes)
        .map_err(|e| format!("cannot write the chart {}: {e}", path.display()))
}

impl Shape {
    /// As an element of SVG.
    fn append_to(&self, to: &mut String) -> std::fmt::Result {
        match self {
            Shape::Text { at: (x, y), anchor, size, text } => {
                let anchor = match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                let text = escape(text);
                writeln!(
                    to,
                    r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" font-size="{size}">{text}</text>"#
                )
            }
            Shape::Rectangle { corner: (x, y), size: (width, height), color, opacity, says } => {
                let [red, green, blue] = color;
                write!(
                    to,
                    r##"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" fill="#{red:02x}{green:02x}{blue:02x}""##
                )?;
                if *opacity < 1.0 {
                    write!(to, r#" fill-opacity="{opacity:.2}""#)?;
                }
                match says.is_empty() {
                    true => writeln!(to, "/>"),
                    false => writeln!(to, "><title>{}</title></rect>", escape(says)),
                }
            }
            Shape::Frame { corner: (x, y), size: (width, height) } => writeln!(
                to,
                r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="none" stroke="currentColor" stroke-opacity="{FRAME_OPACITY}"/>"#
            ),
            Shape::Line { from: (x1, y1), to: (x2, y2), opacity } => writeln!(
                to,
                r#"<line x1="{x1:.2}" y1="{y1:.2}" x2="{x2:.2}" y2="{y2:.2}" stroke="currentColor" stroke-opacity="{opacity:.2}"/>"#
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("<a href='x'>&\"\u{1}\n"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot; ");
        let mut picture = Picture::new(10.0, 10.0);
        picture.rectangle((0.0, 0.0), (1.0, 1.0), (BLUE, 1.0), "</title><script>");
        picture.text((0.0, 0.0), Anchor::Start, 9, "</text>\u{202e}\n");
        assert!(!picture.standalone().contains("<script"));
        assert!(picture.inline("").contains("&lt;/text&gt;\\u{202e}\\n"));
    }
}
