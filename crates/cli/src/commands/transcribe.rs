//! `polyhead transcribe`: what is said in WAV files, as text, JSON or subtitles, with the times of words.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::{Args, ValueEnum};
use polyhead_engine::speech::{MOST_SECONDS, Sound, SpeechTask, TranscribeOptions, Transcript, wav};
use polyhead_engine::{LoadOptions, SpeechEngine};
use polyhead_text::metrics::{EditUnit, Metric, SequenceErrorRate, Statistics, TokenErrorRate};
use serde_json::{Value, json};

use crate::compute_options::ComputeOptions;
use crate::decode_options::positive;
use crate::option_help::SEED;
use crate::report::{Misuse, aligned, grouped, note, print_text};

const EXAMPLES: &str = "\
Examples:
  polyhead transcribe -m whisper-tiny talk.wav
  polyhead transcribe -m whisper-tiny --language de --format srt talk.wav
  polyhead transcribe -m whisper-tiny --words --format json talk.wav
  polyhead transcribe -m whisper-tiny --translate --beam 5 talk.wav
  polyhead transcribe -m runs/digits/model --score test.tsv
  ffmpeg -i talk.mp3 -ar 16000 -f wav - | polyhead transcribe -m whisper-tiny -

Models are folders of Hugging Face's Whisper, or those that polyhead train makes with task = \"transcribe\". Sounds are WAV files: PCM of 8, 16, 24 or 32 bits, or floating point. Several channels are mixed, other rates resampled, which a note says.

Whisper reads windows of 30 s; the next one begins at the last timestamp. Other models read windows of their own length, which end where the sound is quiet. Without --language, the language of the first window is detected.

With several files, text has the name of the file and a tab before each, and JSON is one object per line.

--words gives each word its times, from cross-attention. --score reads lines of a WAV path (relative to the file), a tab and the expected text, and prints word error rate, character error rate and the share of texts with an error.";

/// The format of transcripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TranscriptFormat {
    /// The text; with --words a line for each word: start, end, word
    Text,
    /// A JSON object for each file, with segments and times
    Json,
    /// Subtitles in the format SubRip, of one file
    Srt,
    /// Subtitles in the format WebVTT, of one file
    Vtt,
}

/// Options of `polyhead transcribe`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct Transcribe {
    /// WAV files; - for standard input
    #[arg(value_name = "FILE", required_unless_present = "score")]
    files: Vec<PathBuf>,
    /// Model folder or run folder of a speech recogniser, or an installed one
    #[arg(short, long, value_name = "DIR")]
    model: PathBuf,
    /// Language that is spoken, such as en [default: detected]
    #[arg(long, value_name = "CODE")]
    language: Option<String>,
    /// Write English, whatever language is spoken
    #[arg(long)]
    translate: bool,
    /// Give each word its times
    #[arg(long)]
    words: bool,
    /// Write no timestamps, which can change the text
    #[arg(long)]
    no_timestamps: bool,
    /// Output format
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = TranscriptFormat::Text)]
    format: TranscriptFormat,
    /// Compare with the expected texts of this file, and print error rates
    #[arg(long, value_name = "TSV", conflicts_with_all = ["files", "words", "format"])]
    score: Option<PathBuf>,
    /// Longest sound in seconds
    #[arg(long, value_name = "S", default_value_t = MOST_SECONDS)]
    max_seconds: f64,
    /// Beam size; 1 is greedy search [default: that of the model, else 1]
    #[arg(long, value_name = "N", help_heading = "Decoding", value_parser = positive)]
    beam: Option<usize>,
    /// Draw tokens at random with this temperature; 0 does not
    #[arg(long, value_name = "T", help_heading = "Decoding", default_value_t = 0.0, conflicts_with = "beam")]
    temperature: f32,
    #[arg(long, value_name = "N", help_heading = "Decoding", default_value_t = 0, help = SEED)]
    seed: u64,
    /// Most tokens of a window [default: as many as the model has positions]
    #[arg(long, value_name = "N", help_heading = "Decoding", value_parser = positive)]
    max_tokens: Option<usize>,
    /// Fewest tokens of a window
    #[arg(long, value_name = "N", help_heading = "Decoding", default_value_t = 0)]
    min_tokens: usize,
    #[command(flatten)]
    compute: ComputeOptions,
}

impl Transcribe {
    pub(crate) fn run(self) -> Result<()> {
        let is_subtitles = matches!(self.format, TranscriptFormat::Srt | TranscriptFormat::Vtt);
        if is_subtitles && self.files.len() > 1 {
            let message = format!("subtitles of {} files, expected one", self.files.len());
            return Err(Misuse { message, hint: "run the command once for each file".into() }.into());
        }
        if !(self.max_seconds > 0.0 && self.max_seconds.is_finite()) {
            let message = format!("--max-seconds {}, expected a number above 0", self.max_seconds);
            return Err(Misuse { message, hint: "3600 is an hour".into() }.into());
        }
        let load = |folder: &Path, options: &LoadOptions| SpeechEngine::load(folder, options);
        self.compute.with_model(&self.model, load, |engine| match &self.score {
            Some(path) => self.score(engine, path),
            None => self.files.iter().try_for_each(|path| self.transcribe(engine, path)),
        })
    }

    fn options(&self) -> TranscribeOptions {
        TranscribeOptions {
            language: self.language.clone(),
            task: if self.translate { SpeechTask::Translate } else { SpeechTask::Transcribe },
            timestamps: !self.no_timestamps,
            word_times: self.words,
            beam_size: self.beam,
            temperature: self.temperature,
            seed: self.seed,
            max_tokens: self.max_tokens,
            min_tokens: self.min_tokens,
        }
    }

    fn read(&self, path: &Path) -> Result<Sound> {
        if path != Path::new("-") {
            return Ok(wav::read(path, self.max_seconds)?);
        }
        Ok(wav::read_from(std::io::stdin().lock(), "standard input", self.max_seconds)?)
    }

    fn transcribe(&self, engine: &SpeechEngine, path: &Path) -> Result<()> {
        let transcript = engine.transcribe(&self.read(path)?, &self.options())?;
        for text in &transcript.notes {
            note(&format!("note: {text}"));
        }
        let mut out = std::io::stdout().lock();
        let name = path.display();
        match self.format {
            TranscriptFormat::Text if self.words => {
                for word in transcript.segments.iter().flat_map(|segment| segment.words.iter().flatten()) {
                    let file = if self.files.len() > 1 { format!("{name}\t") } else { String::new() };
                    writeln!(out, "{file}{:.2}\t{:.2}\t{}", word.start, word.end, word.word)?;
                }
            }
            TranscriptFormat::Text if self.files.len() > 1 => writeln!(out, "{name}\t{}", transcript.text)?,
            TranscriptFormat::Text => writeln!(out, "{}", transcript.text)?,
            TranscriptFormat::Json => writeln!(out, "{}", json_of(&transcript, path)?)?,
            TranscriptFormat::Srt => write!(out, "{}", transcript.to_srt())?,
            TranscriptFormat::Vtt => write!(out, "{}", transcript.to_vtt())?,
        }
        Ok(())
    }

    /// Error rates over a list of sounds with their texts.
    fn score(&self, engine: &SpeechEngine, list: &Path) -> Result<()> {
        let text =
            std::fs::read_to_string(list).map_err(|error| polyhead_text::Error::io(list, "read", error))?;
        let (mut found, mut references) = (Vec::new(), Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            let Some((path, reference)) = line.split_once('\t') else {
                let message = "no tab, expected the path of a WAV file, a tab and its text";
                let place = format!("{}:{number}", list.display());
                let hint = "paths are relative to the folder of the file";
                return Err(polyhead_engine::Error::at(place, message, hint).into());
            };
            let path = list.parent().unwrap_or_else(|| Path::new("")).join(path);
            let transcript = engine.transcribe(&self.read(&path)?, &self.options())?;
            found.push(transcript.text);
            references.push(reference.trim().to_owned());
        }
        let references = [references];
        let words = TokenErrorRate::default();
        let characters = TokenErrorRate { unit: EditUnit::Characters, ..words };
        let rate = |metric: &dyn Metric| -> Result<String> {
            let score = Statistics::collect(metric, &found, &references)?.score(metric);
            Ok(format!("{score:.2} %"))
        };
        let rows = [
            ("sounds", grouped(found.len() as u64)),
            ("word error rate", rate(&words)?),
            ("character error rate", rate(&characters)?),
            ("texts with an error", rate(&SequenceErrorRate::default())?),
        ];
        print_text(&aligned(&rows))
    }
}

/// The JSON of a transcript, with its file.
fn json_of(transcript: &Transcript, path: &Path) -> Result<Value> {
    let mut value = serde_json::to_value(transcript)?;
    if let Value::Object(map) = &mut value {
        map.insert("file".into(), json!(path.display().to_string()));
    }
    Ok(value)
}
