//! A reader of protobuf's wire format: fields by number, in order.

pub(crate) enum Value<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

pub(crate) struct Fields<'a>(Vec<(u32, Value<'a>)>);

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().expect("a number ends");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a number of more than ten bytes")
}

/// All of a message; panics on what is none.
pub(crate) fn fields(mut bytes: &[u8]) -> Fields<'_> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut bytes)),
            1 => {
                let (value, rest) = bytes.split_first_chunk().expect("eight bytes");
                bytes = rest;
                Value::Fixed(u64::from_le_bytes(*value))
            }
            2 => {
                let len = varint(&mut bytes) as usize;
                let (value, rest) = bytes.split_at_checked(len).expect("a length that is there");
                bytes = rest;
                Value::Bytes(value)
            }
            other => panic!("wire type {other}"),
        };
        fields.push(((key >> 3) as u32, value));
    }
    Fields(fields)
}

impl<'a> Fields<'a> {
    pub(crate) fn number(&self, field: u32) -> Option<u64> {
        self.0.iter().find_map(|(at, value)| match value {
            Value::Number(number) if *at == field => Some(*number),
            _ => None,
        })
    }

    pub(crate) fn fixed(&self, field: u32) -> Vec<u64> {
        let all = self.0.iter().filter_map(|(at, value)| match value {
            Value::Fixed(number) if *at == field => Some(*number),
            _ => None,
        });
        all.collect()
    }

    fn bytes(&self, field: u32) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter_map(move |(at, value)| match value {
            Value::Bytes(bytes) if *at == field => Some(*bytes),
            _ => None,
        })
    }

    pub(crate) fn text(&self, field: u32) -> Option<&'a str> {
        self.bytes(field).next().map(|bytes| str::from_utf8(bytes).expect("text"))
    }

    pub(crate) fn messages(&self, field: u32) -> Vec<Fields<'a>> {
        self.bytes(field).map(fields).collect()
    }
}
