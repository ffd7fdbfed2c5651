//! A picture in pixels, on white, twice as many a side as SVG has units.

use super::{Anchor, Color, FRAME_OPACITY, INK, Picture, Point, Shape};
use embedded_graphics::mono_font::{MonoTextStyle, iso_8859_1::FONT_10X20};
use embedded_graphics::pixelcolor::{Rgb888, RgbColor};
use embedded_graphics::prelude::{Dimensions, DrawTarget, Pixel, Primitive, Size};
use embedded_graphics::primitives::{Line, PrimitiveStyle, Rectangle};
use embedded_graphics::text::{Alignment, Baseline, Text, TextStyleBuilder};
use embedded_graphics::{Drawable, geometry};
use std::convert::Infallible;

const SCALE: f64 = 2.0;

/// The picture as a file.
///
/// # Errors
/// Those of the encoder.
pub(super) fn encoded(picture: &Picture) -> Result<Vec<u8>, png::EncodingError> {
    let place = place((picture.width, picture.height));
    let size = Size::new(place.x.max(1) as u32, place.y.max(1) as u32);
    let bytes = vec![0xff; 3 * size.width as usize * size.height as usize];
    let mut canvas = Canvas { size, bytes, opacity: 1.0 };
    for shape in &picture.shapes {
        let Ok(()) = shape.draw(&mut canvas);
    }
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, size.width, size.height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&canvas.bytes)?;
    writer.finish()?;
    Ok(file)
}

/// Pixels in lines, three bytes each.
struct Canvas {
    size: Size,
    bytes: Vec<u8>,
    /// Of what is drawn next.
    opacity: f64,
}

impl Dimensions for Canvas {
    fn bounding_box(&self) -> Rectangle {
        Rectangle::new(geometry::Point::zero(), self.size)
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I>(&mut self, pixels: I) -> Result<(), Infallible>
    where
        I: IntoIterator<Item = Pixel<Rgb888>>,
    {
        for Pixel(at, color) in pixels {
            let (Ok(x), Ok(y)) = (usize::try_from(at.x), usize::try_from(at.y)) else { continue };
            let width = self.size.width as usize;
            let pixel = self.bytes.get_mut(3 * (y * width + x)..).filter(|_| x < width);
            let Some(pixel) = pixel.and_then(|bytes| bytes.first_chunk_mut::<3>()) else {
                continue;
            };
            for (under, over) in pixel.iter_mut().zip([color.r(), color.g(), color.b()]) {
                let mixed =
                    f64::from(*under) * (1.0 - self.opacity) + f64::from(over) * self.opacity;
                *under = mixed.round() as u8;
            }
        }
        Ok(())
    }
}

fn place((x, y): Point) -> geometry::Point {
    geometry::Point::new((x * SCALE).round() as i32, (y * SCALE).round() as i32)
}

fn color([red, green, blue]: Color) -> Rgb888 {
    Rgb888::new(red, green, blue)
}

/// From one corner to the other, at least a pixel.
fn area(corner: Point, size: Point) -> Rectangle {
    let begin = place(corner);
    let end = place((corner.0 + size.0, corner.1 + size.1));
    let side = |begin: i32, end: i32| (end - begin).max(1) as u32;
    Rectangle::new(begin, Size::new(side(begin.x, end.x), side(begin.y, end.y)))
}

impl Shape {
    fn draw(&self, canvas: &mut Canvas) -> Result<(), Infallible> {
        let stroke = PrimitiveStyle::with_stroke(color(INK), SCALE as u32);
        match self {
            Shape::Text { at, anchor, text, .. } => {
                canvas.opacity = 1.0;
                let alignment = match anchor {
                    Anchor::Start => Alignment::Left,
                    Anchor::Middle => Alignment::Center,
                    Anchor::End => Alignment::Right,
                };
                let style = TextStyleBuilder::new()
                    .alignment(alignment)
                    .baseline(Baseline::Alphabetic)
                    .build();
                let font = MonoTextStyle::new(&FONT_10X20, color(INK));
                Text::with_text_style(text, place(*at), font, style).draw(canvas)?;
            }
            Shape::Rectangle { corner, size, color: fill, opacity, .. } => {
                canvas.opacity = *opacity;
                let style = PrimitiveStyle::with_fill(color(*fill));
                area(*corner, *size).into_styled(style).draw(canvas)?;
            }
            Shape::Frame { corner, size } => {
                canvas.opacity = FRAME_OPACITY;
                area(*corner, *size).into_styled(stroke).draw(canvas)?;
            }
            Shape::Line { from, to, opacity } => {
                canvas.opacity = *opacity;
                Line::new(place(*from), place(*to)).into_styled(stroke).draw(canvas)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::BLUE;
    use super::*;

    /// Shapes have their colours where they are, one on another, and none goes past the edge.
    #[test]
    fn shapes_are_where_they_belong() {
        let mut picture = Picture::new(20.0, 10.0);
        picture.rectangle((0.0, 0.0), (5.0, 5.0), (BLUE, 1.0), "");
        picture.rectangle((4.0, 0.0), (2.0, 5.0), ([0; 3], 0.5), "");
        picture.line((0.0, 8.0), (100.0, 8.0), 1.0);
        picture.text((19.0, 1.0), Anchor::Start, 12, "outside\u{4e00}");
        let bytes = encoded(&picture).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels.len(), 3 * 40 * 20);
        let at =
            |x: usize, y: usize| -> Color { std::array::from_fn(|i| pixels[3 * (40 * y + x) + i]) };
        assert_eq!((at(0, 0), at(7, 9), at(0, 10)), (BLUE, BLUE, [255; 3]));
        assert_eq!((at(9, 3), at(11, 3)), ([0, 57, 89], [128; 3]));
        assert_eq!((at(20, 15), at(39, 15)), (INK, INK));
    }
}
