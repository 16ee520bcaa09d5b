"""Writes texts.tsv: texts of every kind that users type, with the languages to translate from and into (empty: automatic).

    python texts.py > texts.tsv

A line is text, source and target, separated by tabs; a line end inside a text is written \\n.
"""

PLAIN = {
    "en": ["The cat ate the mouse.", "I bank only at my local bank.", "Where is the nearest station?",
           "She has lived in this town for years.", "Nobody knew what to do next."],
    "de": ["Ich habe den Schlüssel verloren.", "Wo ist der nächste Bahnhof?", "Das Wetter ist heute schön.",
           "Meine Schwester arbeitet in einem Krankenhaus.", "Wir haben keine Zeit mehr."],
    "fr": ["Où est la gare la plus proche ?", "J'ai perdu ma clé hier soir.", "Il fait beau aujourd'hui.",
           "Ma sœur travaille à l'hôpital.", "Nous n'avons plus de temps."],
    "tr": ["Kedi fareyi yedi.", "En yakın istasyon nerede?", "Bugün hava çok güzel.",
           "Kız kardeşim hastanede çalışıyor.", "Artık zamanımız yok."],
}
OTHERS = {"en": ["de", "fr", "tr"], "de": ["en", "fr", "tr"], "fr": ["en", "de", "tr"], "tr": ["en", "de", "fr"]}
NUMBERS = ["It costs $1,234.50.", "We met at 5:30 pm on 12/03/2024.", "Add 2.5 kg of flour and 3 eggs.",
           "Call +1 555 0100 before 9 a.m.", "The population grew by 12.5 % in 2019.", "5 km", "12345", "3.14 < 22/7",
           "Version 2.10.3 is faster than 2.9.", "He won 3:2 in 90 minutes."]
ADDRESSES = ["See https://example.org/a?b=1#c for more.", "Write to ann.lee@example.org or call me.",
             "www.example.com is down.", "Open C:\\Users\\ann\\notes.txt now.", "Run `cargo test --all` first.",
             "https://example.org", "The file is at /etc/hosts on the server.", "Ask @ann about #attention today."]
TAGS = ["The <b>cat</b> ate the <i>mouse</i>.", "Hello {name}, you have %d new messages.", "Press <kbd>Ctrl</kbd> now.",
        "<br>", "Click [here](https://example.org) to go on.", "A & B &amp; C", "if (x < 3) { return; }", "Dear ${user}, good morning!"]
EMOJI = ["Good morning 😀", "😀", "I love it ❤️ so much!", "👍👍", "The 🐱 ate the 🐭.", "Family: 👨‍👩‍👧 at home", "🇩🇪 Germany won.", "♥ music ♫"]
CAPITALS = ["THE CAT ATE THE MOUSE.", "STOP!", "DO NOT OPEN THE DOOR BEFORE 5 PM.", "I work for NASA and the BBC.",
            "MAIL ANN@EXAMPLE.ORG NOW!", "iPhone and eBay are names.", "wHAT iS tHIS?", "HELLO World"]
NAMES = ["Kazuo Ishiguro met Łukasz Żółć in Reykjavík.", "Mr. Brown and Dr. Smith arrived.", "I saw Nguyễn Văn An in Hanoi.",
         "Zoë lives in Saint-Étienne.", "Ms. O'Neill read War and Peace.", "Anna gave Peter a book.", "Google bought YouTube.",
         "We flew from İstanbul to München."]
SEVERAL = ["Good morning. How are you? I am fine!", "He left. She stayed. Nobody spoke.", "Wait... what? No!",
           "First line.\\nSecond line.", "  Leading and trailing space.  ", "One.\\n\\nTwo.\\n", "No. 5 is alive. It runs.",
           "\"Stop!\" he said. \"Why?\" she asked.", "Dr. Smith is here. So is Mr. Brown.", "A. B. C."]
SCRIPTS = ["Привет, как дела?", "我是学生。", "مرحبا بالعالم", "γειά σου Κόσμε", "こんにちは世界", "שלום עולם", "नमस्ते दुनिया",
           "The word 漢字 means characters.", "¿Dónde está la biblioteca?", "Dov'è la stazione?", "안녕하세요", "ⲁⲃⲅ 𝔘𝔫𝔦"]
ODD = ["", " ", "\\n", ".", "?!", "a", "x", "…", "---", "e\u0301t\u00e9", "\u202eabc\u202c", "a\u200bb", "\ufffd", "½ × ¾",
       "cat cat cat cat cat cat cat cat", "asdf qwer zxcv", "I", "ok", "Colorless green ideas sleep furiously", "&nbsp;",
       "no stop at the end", "the the the", "hello,world", "(in brackets)", "'quoted'", "$$$", "A" * 60, "ß", "İ", "ı"]
LONG = ["The teacher reads a book today. " * 12,
        "We went to the market and bought apples, pears, plums, cherries, bread, milk, cheese, butter, eggs, flour, sugar, "
        "salt, pepper, rice, beans, carrots, onions, potatoes, tomatoes and a large bottle of water, because the whole "
        "family, with all its cousins, uncles and aunts, was going to visit us on the next day, " * 4]
SHORT = ["Hello!", "Thank you very much.", "Yes.", "I don't know.", "Good night.", "Excuse me, please.", "See you tomorrow.",
         "Help!", "What time is it?", "How much is this?", "I'm sorry.", "Happy birthday!"]


def main():
    def write(text, source="", target=""):
        print(f"{text}\t{source}\t{target}")

    for language, sentences in PLAIN.items():
        for sentence in sentences:
            for target in OTHERS[language]:
                write(sentence, language, target)
    kinds = [NUMBERS, ADDRESSES, TAGS, EMOJI, CAPITALS, NAMES, SEVERAL, SCRIPTS, ODD, LONG, SHORT]
    for kind in kinds:
        for index, text in enumerate(kind):
            # A third of the texts have both languages, a third one, a third none.
            write(text, *[("en", "de"), ("", "tr"), ("", "")][index % 3])
    for text in NUMBERS + CAPITALS + NAMES:
        write(text, "en", "fr")


if __name__ == "__main__":
    main()
