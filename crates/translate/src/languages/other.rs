//! Texts in a language or a script that the model does not translate, found for a note.
//!
//! A language is found by its function words: those of its own, those that it shares with English, German, French or
//! Turkish, and letters that none of these have; against it speak frequent words of these four. Precision comes first: of
//! 170,000 sentences in the four languages (Tatoeba, FLORES, NTREX, Common Voice, LibreOffice and web pages) 4 are taken for
//! another, 3 of which are about Portuguese words. Of FLORES in Portuguese two thirds are found. A script is found by the
//! ranges of Unicode.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::translation::Note;

/// Texts of fewer words say too little.
const MIN_WORDS: usize = 4;
/// Words of a text that are counted; the beginning of a long text is enough.
const MAX_WORDS: usize = 200;

/// A language that is distinguished from English, German, French and Turkish.
struct OtherLanguage {
    code: &'static str,
    /// Function words that the four languages do not have, in alphabetical order.
    own: &'static str,
    /// Function words that one of the four has too.
    shared: &'static str,
    /// Letters that the four do not have.
    letters: &'static str,
}

#[rustfmt::skip]
const OTHERS: &[OtherLanguage] = &[
    OtherLanguage {
        code: "es",
        own: "\
            ahora algo algunos amigos ante antes aquí años buenos casa como con contra cual cuando \
            cuánto cómo del desde donde durante días dónde ella ellos era eres esa ese eso esta \
            estar estas este esto estos estoy está fue gracias hace hacer hay hermano hola hoy \
            mañana mucho muchos muy más mí nada noche nosotros nunca otra otras otro otros pero poco \
            por porque puede puedo quien quienes quieres quiero qué señor señora siempre sin sobre \
            soy sus sí también tanto tarde tengo tiempo tiene todo todos trabajo tus una uno unos \
            usted ustedes vivo voy yo él",
        shared: "\
            a bien de el en entre es favor hasta la las le les los me mi mis ni no nos o para que se \
            son su tu un y ya",
        letters: "ñ¿¡",
    },
    OtherLanguage {
        code: "it",
        own: "\
            abbiamo adesso agli amici anche ancora anni avete bene buongiorno casa che chi ciao con \
            cosa dal dalla degli dei del della delle di domani dopo dove ed era essere fatto fra \
            fratello già gli grazie ha hai hanno ho io lei lo loro miei mio molto nel nella noi \
            notte oggi ogni perché più posso quando quella quello questa questo sempre senza siamo \
            siete signora signore solo sono stato stazione sua sul sulla suo suoi tempo tra trova \
            tuo tutti tutto una uno vado voi vorrei vuoi vuole è",
        shared: "\
            al alla alle ci come da e fare il in la le lui ma mai mi non o per qui se sei sera si tu \
            un",
        letters: "",
    },
    OtherLanguage {
        code: "pt",
        own: "\
            agora amanhã amigos anos ao aos aqui até bem bom casa com como deles depois desta deste \
            dia ela elas eles em era essa essas esses estou está estão fazer fica foi foram gosto \
            havia hoje irmão isso já lhe mas mesmo meu meus minha minhas muito nas nem nesta neste \
            noite num numa nunca não nós obrigado onde pela pelo pelos pode podem por porque qual \
            quando quem quero seja sem sempre senhor senhora ser será seu seus sua suas são só \
            também tem tempo tenho ter tinha tudo têm uma umas vai você vou às",
        shared: "a as da das de do dos e ele entre esse eu mais me na no nos o os ou para que um uns",
        letters: "ãõ",
    },
    OtherLanguage {
        code: "nl",
        own: "\
            aan altijd bij broer daar dat deze doen dus een eens erg ga gaat ge geen geweest goed \
            heb hebben heeft heel het hij hoe huis hun iemand iets ik jaar jij jullie komt kon \
            kunnen maar mensen mij mijn misschien moet moeten naar niet niets nog nooit om omdat \
            onder ons ook op reeds tegen tijd toch toen uit uw van vandaag veel vind voor vrienden \
            waar waarom wat weet wel welke werd wezen wij wil wordt zal ze zelf zich zij zijn zo \
            zonder zou zullen",
        shared: "\
            al alles andere ben dan dank de der die dit door en er haar hem hier in is ja je kan me \
            meer men met morgen na nu of over te tot u want waren wie willen worden",
        letters: "",
    },
    OtherLanguage {
        code: "pl",
        own: "\
            ale bardzo bez być był była było chcę cię co czas czy dla dlaczego dobry dobrze dom \
            dzień dziękuję dziś gdy gdzie jak jej jest jestem jeszcze jeśli jutro już kiedy kto \
            która które który lat lubię ludzie mam masz mnie mogę moja mojego może można mój nas nic \
            nigdy od oni pan pani po proszę przed przez przy robić się są także tego tej teraz twoja \
            twój ty tylko tym wiem więc wszystko wy z za zawsze zrobić że",
        shared: "ci do go i ich ja ma mi my na nie o on ona ta tak te ten to w",
        letters: "łżśźńąęć",
    },
    OtherLanguage {
        code: "sv",
        own: "\
            aldrig alltid att av bara blev bra broder bror denna dessa det detta dig ditt dom där \
            efter eller ett från få för går göra hade han hans har hej hennes hon hur här idag igen \
            imorgon ingen inte jag kanske kommer med mig min mitt morgon mycket många måste när \
            någon något och också om oss på sig ska skulle som stor säger så tack tycker utan vad \
            vara varför varit vet vi vill är",
        shared: "alla de dem den din du en er god gör i kan man men mot nu till under var",
        letters: "å",
    },
    OtherLanguage {
        code: "da",
        own: "\
            af aldrig altid bare blev bror dag denne det dette dig disse efter eller fra få godt går \
            gør gøre han hans har havde hej hendes henne hun hvad hvem hvor hvordan hvorfor igen \
            ikke ingen jeg jer kommer lide med meget mig min mod må måske nogen noget når og også om \
            på sig siger skal skulle som stor så til uden ved vi vil være været",
        shared: "\
            alle at de dem den din dit du en er et for her i kan man mange men mit morgen nu os tak \
            under var",
        letters: "åø",
    },
    OtherLanguage {
        code: "no",
        own: "\
            aldri alltid av bare ble bror broren dag deg denne dere det dette disse ditt eller etter \
            fra få gjør gjøre godt går hadde han hans har hei hennes hun hva hvem hvor hvordan \
            hvorfor igjen ikke ingen jeg kanskje kommer liker med meg min mitt mye må noe noen nå \
            når og også om oss på seg sier skal skulle som stor så takk til uten veldig vet vi vil \
            være vært å",
        shared: "alle de dem den din du en er et for her i kan man mange men morgen mot under var",
        letters: "åø",
    },
    OtherLanguage {
        code: "fi",
        own: "\
            aika aina ehkä että haluan huomenna huomenta hyvin hyvää hän hänen ihmiset jo joka jos \
            jotka kaikki kiitos koska kuin kuka kun miksi mikä minun minä missä miten mitä mukaan \
            mutta myös niin nyt nämä ole olen olet oli olla ollut ovat paljon pidän pitäisi pitää \
            sekä siellä siitä sinun sinä sitten sitä suuri tai tiedä tuo tämä tämän tänään tätä \
            täällä veljeni vielä voi vuotta",
        shared: "ei en he ja me ne on se te vain",
        letters: "",
    },
    OtherLanguage {
        code: "cs",
        own: "\
            aby ale asi bratr bude byl byla bylo být chci co dnes dobrý dobře děkuji dělat dům ho \
            jak jako jeho jej jejich její jen ještě jsem jsi jsou k kde kdo když která které který \
            lidé moje možná má mám máš mého mě můj může můžu nebo není nevím než nikdy oni po podle \
            prosím proč při rád tady také tato tento teď ti této už v velký velmi vy více vždy z za \
            zítra čas že",
        shared: "a den do i je mi my na o pro s se si tak tam to",
        letters: "řěůčďťňž",
    },
    OtherLanguage {
        code: "hu",
        own: "\
            abban akarok alatt amikor azok azt barátom bátyám csak ebben egy előtt emberek ez ezek \
            ezt ha hanem hogy hogyan holnap ház idő itt jó jól kell kérem köszönöm között lehet lesz \
            majd meg mert mikor minden mindig mint miért már még nagy nagyon nem nincs olyan ott \
            reggelt senki soha szeretem talán tennem ti tudom után vagy vagyok valaki van volt én és \
            éve ő ők",
        shared: "a az be de el hol is ki ma mi mit most nap te",
        letters: "őű",
    },
    OtherLanguage {
        code: "ro",
        own: "\
            aceasta această acest aceste acestea acolo acum aici ani azi bine bună casă cine cu cum \
            când că dacă dimineața doar după ea este ești fi foarte fost fratelui fără gara lor mare \
            mea meu mult mulțumesc mâine mă niciodată noi oameni pe pentru poate sau sunt suntem să \
            său timp toate toți trebuie tău unde voi vreau vă ziua îmi în întotdeauna își îți și \
            știu",
        shared: "a ai am are care ce dar de din ei el eu fac la lui mai nu o pot sa se ta te tot tu un",
        letters: "țșăţ",
    },
    OtherLanguage {
        code: "id",
        own: "\
            ada adalah akan aku apa atau bagaimana baik banyak belum besar besok bisa bukan dalam \
            dari dengan di dia hanya hari harus ingin ini itu jika juga kalau kami kamu kapan karena \
            kasih ke kepada kita lagi lakukan lebih makanan mana masih mau mengapa menjadi mereka \
            mungkin oleh orang pada pagi punya rumah sangat saudara saya sebagai sebuah sekarang \
            selalu selamat seperti siapa sudah suka tahu tahun tapi telah terima tersebut tidak \
            untuk waktu yang",
        shared: "anda dan saat",
        letters: "",
    },
];

/// Frequent words of the four languages.
#[rustfmt::skip]
const FOUR: &[(&str, &str)] = &[
    ("en", "\
        you the to is it that he in of do this was have me we don my what for are can your be she \
        not on and re with like want his know at they did how there go ll all him here has think \
        about ve time her as will very didn get up had one why no if out were going just from an \
        when who good would so need by let where come see been help us"),
    ("de", "\
        ich ist nicht sie das du zu die es er der in hat ein dass wir was habe mir auf sich mit und \
        den eine wie mich war ihr an haben sind kann von einen dem für als so sein bin dich hast dir \
        um noch im aus nach uns wird hier sehr wenn etwas meine mein warum weiß schon mehr ihn bist \
        werden vor tun gehen gut keine man bitte will wurde werde diese immer hatte nur nichts muss"),
    ("fr", "\
        je de est pas vous que il le la ne tu un ce ai nous en une les elle pour suis me qu faire \
        dans des ça plus qui moi tout du te était veux et au fait être mon se avec as si êtes sont \
        ils avez cette son sur es lui très votre peux temps été cela ma pourquoi dit ici pense sais \
        chose on où jamais toi bien comment ont par vraiment ton sa avons quelque dire"),
    ("tr", "\
        bir ben bu onu çok var ne un bunu biz değil sen iyi bana onlar mi mı benim için beni onun \
        daha şimdi ve şey sadece kadar burada kim seni misin hiç zaman yardım nasıl her neden de ona \
        yok mu istiyorum seviyorum değilim sana musun da etti olduğunu biraz görünüyor ihtiyacım \
        senin gerçekten lütfen nefret geri ver miyim severim kimse kötü nerede nin en söyledi \
        ediyorum büyük devam önce herkes hâlâ izin orada asla fazla oldu gibi biliyorum vardı"),
];

/// Scripts besides Latin, with the ranges of their letters.
const SCRIPTS: &[(&str, &[(u32, u32)])] = &[
    ("Greek", &[(0x370, 0x3ff), (0x1f00, 0x1fff)]),
    ("Cyrillic", &[(0x400, 0x52f), (0x1c80, 0x1c8f), (0x2de0, 0x2dff), (0xa640, 0xa69f)]),
    ("Armenian", &[(0x530, 0x58f)]),
    ("Hebrew", &[(0x590, 0x5ff), (0xfb1d, 0xfb4f)]),
    ("Arabic", &[(0x600, 0x6ff), (0x750, 0x77f), (0x8a0, 0x8ff), (0xfb50, 0xfdff), (0xfe70, 0xfeff)]),
    ("Syriac", &[(0x700, 0x74f)]),
    ("N'Ko", &[(0x7c0, 0x7ff)]),
    ("Devanagari", &[(0x900, 0x97f), (0xa8e0, 0xa8ff)]),
    ("Bengali", &[(0x980, 0x9ff)]),
    ("Gurmukhi", &[(0xa00, 0xa7f)]),
    ("Gujarati", &[(0xa80, 0xaff)]),
    ("Tamil", &[(0xb80, 0xbff)]),
    ("Telugu", &[(0xc00, 0xc7f)]),
    ("Kannada", &[(0xc80, 0xcff)]),
    ("Malayalam", &[(0xd00, 0xd7f)]),
    ("Sinhala", &[(0xd80, 0xdff)]),
    ("Thai", &[(0xe00, 0xe7f)]),
    ("Lao", &[(0xe80, 0xeff)]),
    ("Tibetan", &[(0xf00, 0xfff)]),
    ("Burmese", &[(0x1000, 0x109f)]),
    ("Georgian", &[(0x10a0, 0x10ff), (0x1c90, 0x1cbf), (0x2d00, 0x2d2f)]),
    ("Korean", &[(0x1100, 0x11ff), (0x3130, 0x318f), (0xac00, 0xd7af)]),
    ("Ethiopic", &[(0x1200, 0x139f)]),
    ("Khmer", &[(0x1780, 0x17ff)]),
    ("Mongolian", &[(0x1800, 0x18af)]),
    ("Japanese", &[(0x3040, 0x30ff), (0x31f0, 0x31ff)]),
    ("Chinese", &[(0x3400, 0x4dbf), (0x4e00, 0x9fff), (0xf900, 0xfaff), (0x20000, 0x3ffff)]),
];

/// The note on a text in a language or a script that a model of the languages `known`, as two-letter codes, does not
/// translate; none for other texts, and for models of languages that this file does not know.
pub(crate) fn note_other(text: &str, known: &[&str]) -> Option<Note> {
    let codes = || FOUR.iter().map(|(code, _)| *code).chain(OTHERS.iter().map(|other| other.code));
    if !known.iter().all(|code| codes().any(|own| own == *code)) {
        return None;
    }
    if let Some(script) = other_script(text) {
        return Some(Note::OtherScript { script: script.into() });
    }
    let language = other_language(text).filter(|code| !known.contains(code))?;
    Some(Note::OtherLanguage { language: language.into() })
}

/// The script other than Latin that most letters of a text belong to.
fn other_script(text: &str) -> Option<&'static str> {
    let script_of = |letter: char| {
        let within = |(first, last): &(u32, u32)| (*first..=*last).contains(&u32::from(letter));
        SCRIPTS.iter().position(|(_, ranges)| ranges.iter().any(within))
    };
    let (mut counts, mut n_letters) = ([0_usize; SCRIPTS.len()], 0);
    for letter in text.chars().filter(|letter| letter.is_alphabetic()).take(16 * MAX_WORDS) {
        n_letters += 1;
        if !letter.is_ascii()
            && let Some(script) = script_of(letter)
        {
            counts[script] += 1;
        }
    }
    // Japanese is written with Chinese characters too.
    let is_japanese = |index: usize| SCRIPTS[index].0 == "Japanese" && counts[index] > 0;
    let japanese = (0..SCRIPTS.len()).find(|index| is_japanese(*index));
    let most = (0..SCRIPTS.len()).max_by_key(|index| counts[*index])?;
    let total: usize = counts.iter().sum();
    let found = if SCRIPTS[most].0 == "Chinese" { japanese.unwrap_or(most) } else { most };
    (total * 2 > n_letters && n_letters > 1).then_some(SCRIPTS[found].0)
}

/// The code of the language other than the four that a text looks like.
fn other_language(text: &str) -> Option<&'static str> {
    let words = text.split(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty());
    let words: Vec<Word> = words.take(MAX_WORDS).map(Word::new).collect();
    if words.len() < MIN_WORDS {
        return None;
    }
    let found =
        OTHERS.iter().enumerate().filter_map(|(index, other)| Some((score(index, &words)?, other.code)));
    // Of equals the first.
    found.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, code)| code)
}

/// The lists that a word is in: bits are indices of `OTHERS`, for `frequent` of `FOUR`.
#[derive(Debug, Clone, Copy, Default)]
struct Lists {
    own: u16,
    shared: u16,
    frequent: u8,
}

/// A word of a text in small letters, and its lists.
struct Word {
    text: String,
    lists: Lists,
}

impl Word {
    fn new(text: &str) -> Self {
        let text = text.to_lowercase();
        let mut lists = all_lists().get(text.as_str()).copied().unwrap_or_default();
        if !text.is_ascii() {
            for (index, other) in OTHERS.iter().enumerate() {
                let has_letter = text.contains(|letter| other.letters.contains(letter));
                lists.own |= u16::from(has_letter) << index;
            }
        }
        Self { text, lists }
    }
}

/// All listed words with their lists.
fn all_lists() -> &'static HashMap<&'static str, Lists> {
    static LISTS: OnceLock<HashMap<&str, Lists>> = OnceLock::new();
    LISTS.get_or_init(|| {
        let mut all: HashMap<&str, Lists> = HashMap::new();
        for (index, other) in OTHERS.iter().enumerate() {
            other.own.split(' ').for_each(|word| all.entry(word).or_default().own |= 1 << index);
            other.shared.split(' ').for_each(|word| all.entry(word).or_default().shared |= 1 << index);
        }
        for (index, (_, words)) in FOUR.iter().enumerate() {
            words.split(' ').for_each(|word| all.entry(word).or_default().frequent |= 1 << index);
        }
        all
    })
}

/// The numbers of words of its own and shared words of a language, by its index; none where they are too few, or too many
/// words speak against it.
fn score(index: usize, words: &[Word]) -> Option<(usize, usize)> {
    let is_own = |word: &&Word| (word.lists.own >> index) & 1 == 1;
    let is_shared = |word: &&Word| (word.lists.shared >> index) & 1 == 1;
    let first = words.iter().find(is_own)?;
    let (n_words, n_own) = (words.len(), words.iter().filter(is_own).count());
    let n_listed = words.iter().filter(|word| is_own(word) || is_shared(word)).count();
    let others = || words.iter().filter(|word| !is_own(word) && !is_shared(word));
    let against = |four: usize| others().filter(|word| (word.lists.frequent >> four) & 1 == 1).count();
    let against = (0..FOUR.len()).map(against).max().unwrap_or(0);
    let has_several = words.iter().filter(is_own).any(|word| word.text != first.text);
    let is_clear = has_several && against <= n_own && n_own * 8 >= n_words && n_listed * 4 >= n_words;
    let is_pure = against == 0 && n_listed * 5 >= n_words * 3;
    (is_clear || is_pure).then_some((n_own, n_listed - n_own))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[&str] = &["en", "de", "fr", "tr"];

    fn found(text: &str) -> String {
        match note_other(text, KNOWN) {
            Some(Note::OtherLanguage { language }) => language,
            Some(Note::OtherScript { script }) => script,
            _ => String::new(),
        }
    }

    #[test]
    fn languages_are_found_by_their_function_words() {
        for (expected, text) in [
            ("es", "El perro de mi hermano es muy grande."),
            ("es", "¿Dónde está la estación de tren?"),
            ("it", "Mi piace molto la cucina di questo ristorante"),
            ("pt", "Amanhã eu vou à praia com os meus amigos"),
            ("nl", "Waar is het treinstation?"),
            ("pl", "Nie wiem, co mam teraz zrobić"),
            ("sv", "Jag vet inte vad jag ska göra"),
            ("da", "Jeg ved ikke, hvad jeg skal gøre"),
            ("no", "Jeg vet ikke hva jeg skal gjøre"),
            ("fi", "En tiedä, mitä minun pitäisi tehdä"),
            ("cs", "Pes mého bratra je velmi velký."),
            ("hu", "Nem tudom, hogy mit kell tennem"),
            ("ro", "Nu știu ce să fac acum"),
            ("id", "Saya tidak tahu apa yang harus saya lakukan"),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn scripts_are_found_by_their_letters() {
        for (expected, text) in [
            ("Cyrillic", "Привет, как дела?"),
            ("Arabic", "مرحبا بالعالم"),
            ("Greek", "Καλημέρα"),
            ("Hebrew", "שלום עולם"),
            ("Chinese", "你好世界"),
            ("Japanese", "日本語の文"),
            ("Korean", "안녕하세요"),
            ("Devanagari", "नमस्ते दुनिया"),
            ("Thai", "สวัสดีชาวโลก"),
            ("Cyrillic", "OK, Москва далеко"),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn the_four_languages_and_names_are_not_taken_for_others() {
        for text in [
            "",
            "12:30",
            "Hola",
            "no problem",
            "The Los Angeles Times is in San Francisco.",
            "Das ist der Hund von Herrn van der Berg.",
            "Le chat a mangé la souris de la maison.",
            "Bana bir su ver, lütfen; çok susadım.",
            "The word Привет is Russian.",
            "π",
        ] {
            assert_eq!(found(text), "", "{text}");
        }
        assert_eq!(note_other("El perro de mi hermano es muy grande.", &["en", "es"]), None);
        assert_eq!(note_other("Привет, как дела?", &["en", "ru"]), None);
    }
}
