//! A map as an image, and back.

use super::bitmap::Bitmap;
use super::blocks::Blocks;
use super::coded::Coded;
use super::darray::Darray;
use super::diagram::Diagram;
use super::elias_fano::EliasFano;
use super::gaps::Gaps;
use super::image::{Refused, VERSION};
use super::map::{Compact, Form, each};
use super::mixed_radix::MixedRadix;
use super::plain::{Offset, Plain};
use super::representation::Representation;
use super::runs::Runs;
use super::slim::Slim;
use super::strategy::Strategy;
use super::wavelet::Wavelet;
use super::{formula, image};
use crate::rankmap::process::{LPID_MAX, SIZE_MAX};

impl Compact {
    /// The map as bytes that [`from_image`](Self::from_image) reads on any
    /// machine. A child stands alone in its image, in the smallest other form.
    pub fn to_image(&self) -> Vec<u8> {
        if let Form::Child(_) = &self.form
            && let Ok(alone) = Compact::new(Strategy::Space, self.iter())
        {
            return alone.to_image();
        }
        let mut payload = image::Writer::default();
        each!(&self.form,
            map => formula::write(map, &mut payload),
            one => one.write(&mut payload));
        let mut out = image::Writer::default();
        out.bytes(&image::MAGIC);
        out.bytes(&VERSION.to_le_bytes());
        out.bytes(&(self.representation() as u16).to_le_bytes());
        out.u32(self.len());
        out.u32(payload.0.len() as u32);
        out.bytes(&payload.0);
        let checksum = image::checksum(&out.0);
        out.bytes(&checksum.to_le_bytes());
        out.0
    }

    /// The map of an image.
    ///
    /// # Errors
    /// [`Refused`], for whatever bytes are not one.
    pub fn from_image(bytes: &[u8]) -> Result<Compact, Refused> {
        let short = Refused::Length { found: bytes.len(), said: image::HEADER + image::CHECKSUM };
        if !bytes.starts_with(&image::MAGIC) {
            return Err(Refused::Magic);
        }
        let header = bytes.first_chunk::<{ image::HEADER }>().ok_or(short)?;
        let version = u16::from_le_bytes([header[4], header[5]]);
        if version != VERSION {
            return Err(Refused::Version { found: version });
        }
        let representation = u16::from_le_bytes([header[6], header[7]]);
        let size = u32::from_le_bytes([header[8], header[9], header[10], header[11]]);
        let payload = u32::from_le_bytes([header[12], header[13], header[14], header[15]]);
        let said = (payload as usize).saturating_add(image::HEADER + image::CHECKSUM);
        if said != bytes.len() {
            return Err(Refused::Length { found: bytes.len(), said });
        }
        let (body, sum) = bytes.split_last_chunk::<{ image::CHECKSUM }>().ok_or(short)?;
        if image::checksum(body) != u64::from_le_bytes(*sum) {
            return Err(Refused::Checksum);
        }
        let mut from = image::Reader { left: &body[image::HEADER..], size };
        let from = &mut from;
        let named = Representation::ALL.iter().find(|&&one| one as u16 == representation);
        let unknown = Refused::Representation { found: representation };
        let form = match named.ok_or(unknown)? {
            _ if size > SIZE_MAX => return Err(Refused::Content("too many ranks")),
            Representation::Formula | Representation::Segments => {
                Form::Formula(formula::read(size, from)?)
            }
            // The map of no ranks has one form.
            _ if size == 0 => return Err(Refused::Content("no ranks in a form for some")),
            Representation::EliasFano => Form::EliasFano(EliasFano::read(from)?),
            Representation::Bitmap => Form::Bitmap(Bitmap::read(from)?),
            Representation::Slim => Form::Slim(Slim::read(from)?),
            Representation::Darray => Form::Darray(Darray::read(from)?),
            Representation::Runs => Form::Runs(Box::new(Runs::read(from)?)),
            Representation::Gaps => Form::Gaps(Gaps::read(from)?),
            Representation::Diagram => Form::Diagram(Diagram::read(from)?),
            Representation::Blocks => Form::Blocks(Blocks::read(from)?),
            Representation::Packed => Form::Packed(Offset::read(from)?),
            Representation::Plain => Form::Plain(Plain::read(from)?),
            Representation::Wavelet => Form::Wavelet(Wavelet::read(from)?),
            Representation::MixedRadix => Form::MixedRadix(MixedRadix::read(from)?),
            Representation::Coded => Form::Coded(Coded::read(from)?),
            Representation::Child => return Err(unknown),
        };
        from.end()?;
        let map = Compact::of(form);
        if map.len() != size || map.representation() as u16 != representation {
            return Err(Refused::Content("a header that disagrees with the map"));
        }
        // Sets and formulas have checked their lpids already.
        let list =
            matches!(map.form, Form::Blocks(_) | Form::Packed(_) | Form::Plain(_) | Form::Coded(_));
        if list && map.iter().any(|lpid| lpid > LPID_MAX) {
            return Err(Refused::Content("an lpid past the last one"));
        }
        if matches!(map.form, Form::MixedRadix(_)) && formula::is_regular(map.iter()) {
            return Err(Refused::Content("digits that are a formula"));
        }
        Ok(map)
    }
}
