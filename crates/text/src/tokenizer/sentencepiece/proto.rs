//! The `.spm` / `.model` file: a protobuf message `ModelProto`, parsed without a protobuf library.
//!
//! A message is a sequence of fields `key value`, `key = number << 3 | wire type`, with wire type 0 = varint (7 bits
//! per byte, least significant first), 1 = 8 bytes, 2 = length and that many bytes, 5 = 4 bytes. Unknown fields are
//! skipped, a repeated field keeps the last value, and a missing one the default of `sentencepiece_model.proto`.
//! Nothing is allocated from a stated length: every length is checked against the bytes present.

/// Error about a malformed file: (found, expected).
pub(crate) type FormatError = (String, String);

/// Kind of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PieceKind {
    /// A subword.
    Normal,
    /// The piece for text that no other piece covers.
    Unknown,
    /// A token that encoding never yields: `<s>`, `</s>`, `<pad>`.
    Control,
    /// A symbol that is never split.
    UserDefined,
    /// A piece that is listed but not used.
    Unused,
    /// One byte of a character that no piece covers: `<0xE2>`.
    Byte,
}

/// One entry of the vocabulary.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Piece {
    pub(crate) text: String,
    pub(crate) score: f32,
    pub(crate) kind: PieceKind,
}

/// Segmentation algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelType {
    /// The most probable segmentation under independent pieces (Kudo 2018).
    Unigram,
    /// Byte-pair encoding: the adjacent pair with the highest score merges first (Sennrich et al. 2016).
    Bpe,
    /// Whole words.
    Word,
    /// Characters.
    Char,
}

/// Settings of the trainer that affect encoding and decoding.
#[derive(Debug, Clone)]
pub(crate) struct TrainerSpec {
    pub(crate) model_type: ModelType,
    pub(crate) byte_fallback: bool,
    pub(crate) treat_whitespace_as_suffix: bool,
    pub(crate) unk_surface: String,
    pub(crate) bos_piece: String,
    pub(crate) eos_piece: String,
    pub(crate) pad_piece: String,
}

/// Settings of the normaliser.
#[derive(Debug, Clone)]
pub(crate) struct NormalizerSpec {
    pub(crate) name: String,
    pub(crate) precompiled_charsmap: Vec<u8>,
    pub(crate) add_dummy_prefix: bool,
    pub(crate) remove_extra_whitespaces: bool,
    pub(crate) escape_whitespaces: bool,
}

/// The whole file.
#[derive(Debug, Clone)]
pub(crate) struct ModelProto {
    pub(crate) pieces: Vec<Piece>,
    pub(crate) trainer: TrainerSpec,
    pub(crate) normalizer: NormalizerSpec,
    pub(crate) denormalizer: Option<NormalizerSpec>,
}

impl ModelProto {
    /// Reads a serialised `ModelProto`.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut model = Self {
            pieces: Vec::new(),
            trainer: TrainerSpec::default(),
            normalizer: NormalizerSpec::default(),
            denormalizer: None,
        };
        let mut fields = Fields::new(bytes, 0);
        while let Some(field) = fields.next()? {
            match field.number {
                1 => {
                    let id = model.pieces.len();
                    model.pieces.push(
                        Piece::parse(field.message()?)
                            .map_err(|(found, expected)| (format!("piece {id}: {found}"), expected))?,
                    );
                }
                2 => model.trainer.merge(field.message()?)?,
                3 => model.normalizer.merge(field.message()?)?,
                5 => model.denormalizer.get_or_insert_default().merge(field.message()?)?,
                _ => {}
            }
        }
        Ok(model)
    }
}

impl Piece {
    fn parse(mut fields: Fields<'_>) -> Result<Self, FormatError> {
        let mut piece = Self { text: String::new(), score: 0.0, kind: PieceKind::Normal };
        while let Some(field) = fields.next()? {
            match field.number {
                1 => piece.text = field.text()?,
                2 => piece.score = field.float()?,
                3 => {
                    piece.kind = match field.varint()? {
                        1 => PieceKind::Normal,
                        2 => PieceKind::Unknown,
                        3 => PieceKind::Control,
                        4 => PieceKind::UserDefined,
                        5 => PieceKind::Unused,
                        6 => PieceKind::Byte,
                        other => return Err((format!("type {other}"), "a type from 1 to 6".into())),
                    }
                }
                _ => {}
            }
        }
        Ok(piece)
    }
}

impl Default for TrainerSpec {
    fn default() -> Self {
        Self {
            model_type: ModelType::Unigram,
            byte_fallback: false,
            treat_whitespace_as_suffix: false,
            unk_surface: " \u{2047} ".into(),
            bos_piece: "<s>".into(),
            eos_piece: "</s>".into(),
            pad_piece: "<pad>".into(),
        }
    }
}

impl TrainerSpec {
    fn merge(&mut self, mut fields: Fields<'_>) -> Result<(), FormatError> {
        while let Some(field) = fields.next()? {
            match field.number {
                3 => {
                    self.model_type = match field.varint()? {
                        1 => ModelType::Unigram,
                        2 => ModelType::Bpe,
                        3 => ModelType::Word,
                        4 => ModelType::Char,
                        other => {
                            return Err((format!("model type {other}"), "a model type from 1 to 4".into()));
                        }
                    }
                }
                24 => self.treat_whitespace_as_suffix = field.varint()? != 0,
                35 => self.byte_fallback = field.varint()? != 0,
                44 => self.unk_surface = field.text()?,
                46 => field.name(&mut self.bos_piece)?,
                47 => field.name(&mut self.eos_piece)?,
                48 => field.name(&mut self.pad_piece)?,
                _ => {}
            }
        }
        Ok(())
    }
}

impl Default for NormalizerSpec {
    fn default() -> Self {
        Self {
            name: String::new(),
            precompiled_charsmap: Vec::new(),
            add_dummy_prefix: true,
            remove_extra_whitespaces: true,
            escape_whitespaces: true,
        }
    }
}

impl NormalizerSpec {
    fn merge(&mut self, mut fields: Fields<'_>) -> Result<(), FormatError> {
        while let Some(field) = fields.next()? {
            match field.number {
                1 => self.name = field.text()?,
                2 => self.precompiled_charsmap = field.bytes()?.to_vec(),
                3 => self.add_dummy_prefix = field.varint()? != 0,
                4 => self.remove_extra_whitespaces = field.varint()? != 0,
                5 => self.escape_whitespaces = field.varint()? != 0,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Iterator over the fields of a message; `start` is its offset in the file, for error messages.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    start: usize,
}

/// A field: its number, its value, and the offset of the value in the file.
struct Field<'a> {
    number: u64,
    value: Value<'a>,
    at: usize,
}

enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Four([u8; 4]),
    Eight,
}

impl<'a> Fields<'a> {
    fn new(bytes: &'a [u8], start: usize) -> Self {
        Self { bytes, at: 0, start }
    }

    fn next(&mut self) -> Result<Option<Field<'a>>, FormatError> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let key = self.varint()?;
        let wire = key & 7;
        let mut at = self.start + self.at;
        let value = match wire {
            0 => Value::Varint(self.varint()?),
            1 => {
                self.take(8)?;
                Value::Eight
            }
            2 => {
                let length = self.varint()?;
                at = self.start + self.at;
                Value::Bytes(self.take(length)?)
            }
            5 => {
                let bytes = self.take(4)?;
                Value::Four(bytes.try_into().expect("four bytes were taken"))
            }
            other => {
                return Err((
                    format!("protobuf wire type {other} at byte {at}"),
                    "a protobuf field of wire type 0, 1, 2 or 5".into(),
                ));
            }
        };
        if key >> 3 == 0 {
            return Err((format!("protobuf field number 0 before byte {at}"), "a number from 1".into()));
        }
        Ok(Some(Field { number: key >> 3, value, at }))
    }

    fn varint(&mut self) -> Result<u64, FormatError> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let Some(&byte) = self.bytes.get(self.at) else {
                return Err((
                    format!("the end at byte {}", self.start + self.at),
                    "the rest of a number".into(),
                ));
            };
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err((
            format!("a number of more than 10 bytes before byte {}", self.start + self.at),
            "a protobuf number".into(),
        ))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], FormatError> {
        let rest = &self.bytes[self.at..];
        match usize::try_from(length).ok().and_then(|length| rest.get(..length)) {
            Some(bytes) => {
                self.at += bytes.len();
                Ok(bytes)
            }
            None => Err((
                format!(
                    "a field of {length} bytes at byte {} with {} left",
                    self.start + self.at,
                    rest.len()
                ),
                "a field that ends inside the message".into(),
            )),
        }
    }
}

impl<'a> Field<'a> {
    fn wrong(&self, expected: &str) -> FormatError {
        (format!("field {} at byte {} of the wrong type", self.number, self.at), expected.into())
    }

    fn bytes(&self) -> Result<&'a [u8], FormatError> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(self.wrong("a string of bytes")),
        }
    }

    fn message(&self) -> Result<Fields<'a>, FormatError> {
        Ok(Fields::new(self.bytes()?, self.at))
    }

    fn text(&self) -> Result<String, FormatError> {
        match std::str::from_utf8(self.bytes()?) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err((
                format!("invalid UTF-8 at byte {}", self.at + error.valid_up_to()),
                "text in UTF-8".into(),
            )),
        }
    }

    /// Sets `name` unless the field is empty, which keeps the default.
    fn name(&self, name: &mut String) -> Result<(), FormatError> {
        let text = self.text()?;
        if !text.is_empty() {
            *name = text;
        }
        Ok(())
    }

    fn varint(&self) -> Result<u64, FormatError> {
        match self.value {
            Value::Varint(value) => Ok(value),
            _ => Err(self.wrong("a number")),
        }
    }

    fn float(&self) -> Result<f32, FormatError> {
        match self.value {
            Value::Four(bytes) => Ok(f32::from_le_bytes(bytes)),
            _ => Err(self.wrong("a 4-byte number")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_written_by_hand_reads_back() {
        // pieces { piece: "a" score: -1.5 type: USER_DEFINED }, trainer_spec { model_type: BPE byte_fallback: true }
        let bytes = [
            0x0a, 10, 0x0a, 1, b'a', 0x15, 0, 0, 0xc0, 0xbf, 0x18, 4, // piece
            0x12, 5, 0x18, 2, 0x98, 0x02, 1, // trainer
        ];
        let model = ModelProto::parse(&bytes).unwrap();
        assert_eq!(model.pieces, [Piece { text: "a".into(), score: -1.5, kind: PieceKind::UserDefined }]);
        assert_eq!(model.trainer.model_type, ModelType::Bpe);
        assert!(model.trainer.byte_fallback);
        assert!(model.normalizer.add_dummy_prefix);
    }

    #[test]
    fn hostile_lengths_are_refused() {
        for bytes in [
            &[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01][..],
            &[0x0a, 0x80],
            &[0xff; 11],
            &[0x0b],
            &[0x00, 0x00],
            &[0x0a, 2, 0x18, 9],
            &[0x0a, 3, 0x0a, 1, 0xff],
        ] {
            assert!(ModelProto::parse(bytes).is_err(), "{bytes:?}");
        }
    }
}
