"""Values of the slots of synthetic.py: names, nouns, amounts, dates and numbers, with their forms in four languages."""
import os
import re
import unicodedata

HERE = os.path.dirname(os.path.abspath(__file__))
LANGUAGES = ("eng", "deu", "fra", "tur")

def table(name):
    """The rows of a table beside this file, without comments."""
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file if line.strip() and not line.startswith("#")]


def capital(text, language):
    """The text with a capital first letter."""
    if text[:1] == "i" and language == "tur":
        return "İ" + text[1:]
    return text[:1].upper() + text[1:]


# ---------------------------------------------------------------- Turkish suffixes

FOUR = {"a": "ı", "ı": "ı", "e": "i", "i": "i", "o": "u", "u": "u", "ö": "ü", "ü": "ü"}
VOICELESS = "fstkçşhpxqc"
DIGITS = "sıfır bir iki üç dört beş altı yedi sekiz dokuz".split()
TENS = "- on yirmi otuz kırk elli altmış yetmiş seksen doksan".split()
SOFT = {"p": "b", "ç": "c", "k": "ğ"}


def turkish_lower(text):
    return text.replace("İ", "i").replace("I", "ı").lower()


def reading_of(word):
    """The letters of a word that decide its suffixes, without accents that Turkish does not have."""
    letters = []
    for letter in turkish_lower(word):
        letters.append(letter if letter in "çğışöü" else unicodedata.normalize("NFD", letter)[0])
    text = "".join(letters).replace("ø", "ö").replace("ł", "l")
    return text[:-1] + "i" if re.search(r"[^aeıioöuü]y$", text) else text


def number_reading(number):
    """The last word of a whole number in Turkish."""
    if number % 10 or number == 0:
        return DIGITS[number % 10]
    if number % 100:
        return TENS[number // 10 % 10]
    return "yüz" if number % 1000 else "bin" if number % 1000000 else "milyon"


def ending(reading, case, compound=False):
    """The case suffix after a word with that reading; a compound ends in a possessive suffix."""
    vowel = next((letter for letter in reversed(reading) if letter in FOUR), "e")
    high, low = FOUR[vowel], "a" if vowel in "aıou" else "e"
    open_end = reading[-1] in FOUR
    if compound and case in ("i", "e", "de", "den"):
        return {"i": "n" + high, "e": "n" + low, "de": "nd" + low, "den": "nd" + low + "n"}[case]
    stop = "t" if reading[-1] in VOICELESS else "d"
    return {
        "i": ("y" if open_end else "") + high,
        "e": ("y" if open_end else "") + low,
        "de": stop + low,
        "den": stop + low + "n",
        "in": ("n" if open_end else "") + high + "n",
        "le": ("y" if open_end else "") + "l" + low,
        "si": ("s" if open_end else "") + high,
        "im": ("" if open_end else high) + "m",
        "imi": ("" if open_end else high) + "m" + high,
    }[case]


def turkish_noun(noun, case):
    """A common noun with a suffix: "otobüs durağı+" is a compound, "saat=saet" gives a reading."""
    word, _, reading = noun.partition("=")
    compound = word.endswith("+")
    word = word.rstrip("+")
    if not case:
        return word
    if compound and case in ("im", "imi"):
        word, reading = (re.sub(r"(?<=[aeıioöuü])s[ıiuü]$|[ıiuü]$", "", text) for text in (word, reading))
    reading = reading or word
    soft = case in ("i", "e", "in", "im", "imi") and sum(letter in FOUR for letter in word.split()[-1]) > 1
    if soft and word[-1] in SOFT and not compound and not (word[-1] == "k" and word[-2] not in FOUR):
        word = word[:-1] + SOFT[word[-1]]
    return word + ending(reading_of(reading), case, compound)


# ---------------------------------------------------------------- articles

ASPIRATE = ("hamburger", "haricot", "hamster", "hibou", "hérisson", "héros", "homard")
MUTE_NAMES = ("Hélène", "Henri", "Hubert")


def elides(word):
    """Whether French articles lose their vowel before the word."""
    first = unicodedata.normalize("NFD", word[:1].lower())[:1]
    if first == "h":
        return word in MUTE_NAMES or word[0] == "h" and not word.startswith(ASPIRATE)
    return first in "aeiouœ" or word.startswith(("Yv", "Ys"))


def french_noun(noun, form):
    """"une pomme" with another article: un le mon ton votre du au, or bare."""
    article, word = noun.split(" ", 1)
    if form == "un":
        return noun
    if not form:
        return word
    feminine, short = article == "une", elides(word)
    if form == "mon":
        return ("ma " if feminine and not short else "mon ") + word
    if form == "e":
        return "e" if feminine else ""
    if form == "ce":
        return ("cette " if feminine else "cet " if short else "ce ") + word
    forms = {"le": ("l'", "la ", "le "), "du": ("de l'", "de la ", "du "), "au": ("à l'", "à la ", "au ")}[form]
    return forms[0 if short else 1 if feminine else 2] + word


GERMAN = {
    "ein": ("ein", "eine", "ein"), "einen": ("einen", "eine", "ein"), "einem": ("einem", "einer", "einem"),
    "den": ("den", "die", "das"), "dem": ("dem", "der", "dem"), "zum": ("zum", "zur", "zum"),
    "mein": ("mein", "meine", "mein"), "meinen": ("meinen", "meine", "mein"), "dein": ("dein", "deine", "dein"),
    "deinen": ("deinen", "deine", "dein"), "ihren": ("Ihren", "Ihre", "Ihr"), "dieser": ("dieser", "diese", "dieses"),
    "diesen": ("diesen", "diese", "dieses"), "keinen": ("keinen", "keine", "kein"), "er": ("er", "sie", "es"),
}


def german_noun(noun, form):
    """"der Apfel" with another article."""
    article, word = noun.split(" ", 1)
    if form == "der":
        return noun
    if not form:
        return word
    chosen = GERMAN[form][("der", "die", "das").index(article)]
    return chosen if form == "er" else chosen + " " + word


def english_noun(noun, form):
    """A noun with "a" or "an"."""
    if not form:
        return noun
    vowel = noun[0].lower() in "aeiou" and not noun.startswith(("uni", "Euro", "USB", "one", "use")) or noun == "hour"
    return ("an " if vowel else "a ") + noun


# ---------------------------------------------------------------- values of slots


class Value:
    """What a slot is filled with: a text for each language, and how its forms are made."""

    def __init__(self, *texts, reading=None, forms=None, order=None, unit=None):
        self.texts = dict(zip(LANGUAGES, texts if len(texts) > 1 else texts * 4))
        self.reading, self.forms, self.order, self.unit = reading, forms, order, unit

    def follows(self, other):
        """Whether the value can stand as the second of its kind in a sentence."""
        if self.order is None:
            return self.texts != other.texts
        return self.order > other.order and self.unit == other.unit

    def form(self, language, form):
        text = self.texts[language]
        if self.forms:
            return self.forms(text, language, form)
        if not form:
            return text
        if language == "fra":
            short = elides(text)
            return {"de": ("de ", "d'"), "que": ("que ", "qu'"), "le": ("le ", "l'")}[form][short] + text
        if language == "deu" and form == "s":
            return text + ("'" if text[-1] in "sßzx" else "s")
        if language == "eng" and form == "s":
            return text + "'s"
        if language == "tur":
            return text + "'" + ending(reading_of(self.reading or text), form)
        raise ValueError(f"form {form} of {text} in {language}")


def noun_form(text, language, form):
    if language == "eng":
        return english_noun(text, form)
    return {"deu": german_noun, "fra": french_noun, "tur": turkish_noun}[language](text, form)


def country_form(text, language, form):
    """Countries with prepositions: German in, nach, aus; French en, de, le."""
    if language == "deu":
        article, _, word = text.rpartition(" ") if text.startswith("die ") else ("", "", text)
        if not form:
            return text
        if not article:
            return {"in": "in ", "nach": "nach ", "aus": "aus "}[form] + word
        return {"in": "in der ", "nach": "in die ", "aus": "aus der "}[form] + word
    if language == "fra":
        feminine = text.endswith(" f") or text.startswith("la ")
        text = text.removesuffix(" f")
        word = re.sub(r"^(la |le |l')", "", text)
        if form == "en":
            return ("en " if feminine or elides(word) else "au ") + word
        if form == "de":
            return ("d'" if elides(word) else "de " if feminine else "du ") + word
        return text
    if language == "tur" and form:
        return text + "'" + ending(reading_of(text), form)
    return text


def figures(number, decimals=0):
    """A number in the four languages."""
    english = f"{number:,.{decimals}f}"
    other = english.replace(",", "#").replace(".", ",")
    return english, other.replace("#", "."), other.replace("#", " "), other.replace("#", ".")


MONTHS = [row.split() for row in (
    "January Januar janvier Ocak", "February Februar février Şubat", "March März mars Mart", "April April avril Nisan",
    "May Mai mai Mayıs", "June Juni juin Haziran", "July Juli juillet Temmuz", "August August août Ağustos",
    "September September septembre Eylül", "October Oktober octobre Ekim", "November November novembre Kasım",
    "December Dezember décembre Aralık")]
DAYS = [row.split() for row in (
    "Monday Montag lundi Pazartesi", "Tuesday Dienstag mardi Salı", "Wednesday Mittwoch mercredi Çarşamba",
    "Thursday Donnerstag jeudi Perşembe", "Friday Freitag vendredi Cuma", "Saturday Samstag samedi Cumartesi",
    "Sunday Sonntag dimanche Pazar")]
WORDS = [("dollars", "Dollar", "dollars", "dolar"), ("euros", "Euro", "euros", "euro"),
         ("pounds", "Pfund", "livres", "sterlin"), ("liras", "Lira", "livres turques", "lira"),
         ("yen", "Yen", "yens", "yen"), ("Swiss francs", "Schweizer Franken", "francs suisses", "İsviçre frangı")]
UNITS = ("km kg m cm m² g ml GB MB TB kW mph km/h °C l mm kWh t".split())


class Values:
    """Draws the values of slots."""

    def __init__(self, rng):
        self.rng, self.lists = rng, {}
        for row in table("names.tsv"):
            if row[0] in ("exonym", "country", "language"):
                texts = [text.partition("=") for text in row[1:5]]
                value = Value(*(text[0] for text in texts), reading=texts[3][2] or None,
                              forms=country_form if row[0] == "country" else None)
                self.add({"exonym": "city"}.get(row[0], row[0]), value)
                continue
            for name in row[3].split():
                name, _, reading = name.partition("=")
                value = Value(name, reading=reading or None)
                if row[0] == "first":
                    self.add("f", value)
                    self.add("f" + row[1], value)
                else:
                    self.add({"family": "fam"}.get(row[0], row[0]), value)
        for kind, english, german, french, turkish in table("vocabulary.tsv"):
            for slot in {"t": "tb", "p": "t", "b": "b", "d": "d", "l": "l"}.get(kind, ""):
                self.add(slot, Value(english, german, french, turkish, forms=noun_form))

    def add(self, kind, value):
        self.lists.setdefault(kind, []).append(value)

    def draw(self, slot):
        kind = slot.rstrip("0123456789")
        if kind in self.lists:
            return self.rng.choice(self.lists[kind])
        return getattr(self, "draw_" + kind)()

    def full(self, first):
        first, last = self.rng.choice(self.lists[first]), self.rng.choice(self.lists["fam"])
        return Value(first.texts["eng"] + " " + last.texts["eng"], reading=last.reading or last.texts["eng"])

    def draw_p(self):
        return self.full("f")

    def draw_pm(self):
        return self.full("fm")

    def draw_pf(self):
        return self.full("ff")

    def amount(self):
        """A number for a price and its decimals."""
        rng, kind = self.rng, self.rng.random()
        if kind < 0.4:
            return rng.randint(0, 300) + rng.choice((99, 95, 90, 50, 49, 25, rng.randint(1, 98))) / 100, 2
        if kind < 0.75:
            return rng.choice((rng.randint(2, 99), rng.randint(2, 20) * 50, rng.randint(2, 999))), 0
        if kind < 0.9:
            return rng.choice((rng.randint(10, 999) * 100, rng.randint(1000, 99999), rng.randint(1, 90) * 10000)), 0
        return rng.randint(1000, 20000) + rng.randint(1, 99) / 100, 2

    def draw_money(self):
        number, decimals = self.amount()
        sign = self.rng.choice("$$$$€€€££₺₺¥FT")
        if sign == "¥" and decimals:
            number, decimals = int(number) + 100, 0
        english, german, french, turkish = figures(number, decimals)
        if sign in "FT":
            word = "CHF" if sign == "F" else "TL"
            front = word + " " + english if sign == "F" and self.rng.random() < 0.5 else english + " " + word
            return Value(front, f"{german} {word}", f"{french} {word}", f"{turkish} {word}", order=number, unit=sign)
        front = f"{english} {sign}" if sign == "€" and self.rng.random() < 0.1 else sign + english
        return Value(front, f"{german} {sign}", f"{french} {sign}", f"{turkish} {sign}", order=number, unit=sign)

    def draw_cash(self):
        return self.draw_fund() if self.rng.random() < 0.3 else self.draw_coin()

    def draw_coin(self):
        """A small amount in words."""
        rng, words = self.rng, self.rng.choice(WORDS[:4] + WORDS)
        if rng.random() < 0.15:
            number = rng.choice((5, 10, 20, 25, 30, 40, 50, 60, 75, 80, 90, 95, 99))
            return Value(f"{number} cents", f"{number} Cent", f"{number} centimes", f"{number} sent")
        texts = figures(rng.choice((rng.randint(2, 20), rng.randint(2, 40) * 5, rng.randint(10, 90) * 100)))
        return Value(*(f"{text} {word}" for text, word in zip(texts, words)))

    def draw_fund(self):
        """A large amount in words."""
        rng, words = self.rng, self.rng.choice(WORDS[:4] + WORDS)
        number, decimals = rng.choice(((rng.randint(2, 900), 0), (rng.randint(11, 99) / 10, 1)))
        texts = figures(number, decimals)
        large = rng.choice((("million", "Millionen", "millions", "milyon"), ("billion", "Milliarden", "milliards", "milyar")))
        large = [large[0], large[1], large[2][:-1] if number < 2 else large[2], large[3]]
        french = f"{texts[2]} {large[2]} " + ("d'" if elides(words[2]) else "de ") + words[2]
        return Value(f"{texts[0]} {large[0]} {words[0]}", f"{texts[1]} {large[1]} {words[1]}", french,
                     f"{texts[3]} {large[3]} {words[3]}")

    def day_of_month(self):
        month = self.rng.randrange(12)
        return self.rng.randint(1, (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month]), month

    def draw_date(self, since=1950):
        day, month = self.day_of_month()
        year = self.rng.randint(since, 2035)
        english = f"{month + 1}/{day}/{year}" if self.rng.random() < 0.5 else f"{month + 1:02}/{day:02}/{year}"
        if day > 12 and self.rng.random() < 0.3:
            english = f"{day:02}/{month + 1:02}/{year}"
        dotted = f"{day:02}.{month + 1:02}.{year}"
        return Value(english, dotted, f"{day:02}/{month + 1:02}/{year}", dotted)

    def draw_iso(self):
        day, month = self.day_of_month()
        return Value(f"{self.rng.randint(1990, 2035)}-{month + 1:02}-{day:02}")

    def draw_day(self, year=None):
        day, month = self.day_of_month()
        names, late = MONTHS[month], f" {year}" if year else ""
        if self.rng.random() < 0.6:
            english = f"{names[0]} {day}" + (f", {year}" if year else "")
        else:
            english = f"{day} {names[0]}{late}"
        first = "1er" if day == 1 else day
        return Value(english, f"{day}. {names[1]}{late}", f"{first} {names[2]}{late}", f"{day} {names[3]}{late}",
                     order=None if year else month * 31 + day)

    def draw_long(self):
        return self.draw_day(self.rng.randint(1900, 2035))

    def draw_due(self):
        return self.draw_day(self.rng.randint(2021, 2035))

    def draw_duen(self):
        return self.draw_date(2021)

    def draw_wday(self):
        day, month = self.day_of_month()
        names, week = MONTHS[month], self.rng.choice(DAYS)
        english = f"{week[0]}, {names[0]} {day}" if self.rng.random() < 0.7 else f"{week[0]}, {day} {names[0]}"
        first = "1er" if day == 1 else day
        forms = {"dem": f"{week[1]}, dem {day}. {names[1]}", "den": f"{week[1]}, den {day}. {names[1]}"}
        texts = english, f"{week[1]}, {day}. {names[1]}", f"{week[2]} {first} {names[2]}", f"{day} {names[3]} {week[3]}"
        return Value(*texts, forms=lambda text, language, form: forms[form] if form else text)

    def draw_wd(self):
        names = self.rng.choice(DAYS)
        return Value(*names[:3], turkish_lower(names[3]))

    def draw_mon(self):
        names = self.rng.choice(MONTHS)
        return Value(*names[:3], turkish_lower(names[3]))

    def draw_year(self):
        year = self.rng.randint(1800, 2035)
        return Value(str(year), reading=number_reading(year))

    def draw_time(self):
        rng, hour = self.rng, self.rng.randint(6, 23)
        minute = rng.choice((0, 0, 15, 30, 30, 45, rng.randint(1, 59), rng.randint(0, 11) * 5))
        kind, half = rng.random(), hour % 12 or 12
        if kind < 0.3:
            english = f"{hour:02}:{minute:02}"
        else:
            marks = ("a.m.", "AM", "am") if hour < 12 else ("p.m.", "PM", "pm")
            mark = marks[0 if kind < 0.55 else 1 if kind < 0.85 else 2]
            english = (f"{half}" if minute == 0 and rng.random() < 0.5 else f"{half}:{minute:02}")
            english += ("" if mark[-1] == "m" and rng.random() < 0.5 else " ") + mark
        german = f"{hour} Uhr" if minute == 0 and rng.random() < 0.5 else f"{hour}:{minute:02} Uhr"
        french = f"{hour}h" + (f"{minute:02}" if minute else "")
        return Value(english, german, french, f"{hour:02}:{minute:02}", reading=number_reading(minute or hour),
                     order=hour * 60 + minute)

    def draw_num(self):
        digits = self.rng.choice((4, 4, 5, 5, 6, 6, 7, 8))
        number = self.rng.randint(10 ** (digits - 1), 10 ** digits - 1)
        if self.rng.random() < 0.4:
            number -= number % 10 ** (digits - 2)
        return Value(*figures(number), reading=number_reading(number))

    def draw_dec(self):
        number, decimals = self.rng.choice(((self.rng.randint(11, 999) / 10, 1), (self.rng.randint(101, 9999) / 100, 2)))
        return Value(*figures(number, decimals))

    def draw_pct(self):
        if self.rng.random() < 0.7:
            number, decimals = self.rng.choice((self.rng.randint(2, 99), self.rng.randint(1, 20) * 5)), 0
            reading = number_reading(number)
        else:
            tenth = self.rng.choice([n for n in range(11, 990) if n % 10])
            number, decimals, reading = tenth / 10, 1, number_reading(tenth % 10)
        english, german, french, turkish = figures(number, decimals)
        english += "%" if self.rng.random() < 0.85 else " percent"
        return Value(english, german + " %" if english[-1] == "%" else german + " Prozent",
                     french + " %" if english[-1] == "%" else french + " pour cent",
                     "%" + turkish if english[-1] == "%" else "yüzde " + turkish, reading=reading)

    def draw_n(self):
        number = self.rng.choice((self.rng.randint(2, 12), self.rng.randint(2, 99), self.rng.randint(2, 10) * 10))
        return Value(str(number), reading=number_reading(number), order=number)

    def draw_few(self):
        return Value(str(self.rng.randint(2, 12)))

    def draw_deg(self):
        return Value(str(self.rng.randint(2, 38)))

    def draw_pin(self):
        return Value(str(self.rng.randint(1000, 999999)))

    def draw_rate(self):
        return Value(*figures(self.rng.randint(25, 50) / 10, 1))

    def draw_since(self):
        return Value(str(self.rng.randint(1985, 2025)))

    def draw_ord(self):
        number = self.rng.choice((self.rng.randint(2, 12), self.rng.randint(2, 60)))
        mark = "th" if 10 < number < 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
        return Value(f"{number}{mark}", f"{number}.", f"{number}e", f"{number}.")

    def draw_unit(self):
        unit = self.rng.choice(UNITS)
        number, decimals = self.rng.choice(((self.rng.randint(2, 90), 0), (self.rng.randint(11, 99) / 10, 1),
                                            (self.rng.randint(10, 50) * 10, 0)))
        texts = figures(number, decimals)
        gap = " " if self.rng.random() < 0.7 else ""
        french = unit.replace("B", "o")
        return Value(texts[0] + gap + unit, f"{texts[1]} {unit}", f"{texts[2]} {french}", f"{texts[3]} {unit}")

    def draw_phone(self):
        rng = self.rng
        number = lambda digits: "".join(str(rng.randint(0 if place else 2, 9)) for place in range(digits))
        return Value(rng.choice((
            f"+49 {rng.choice((30, 40, 89, 221))} {number(7)}",
            f"+90 {rng.choice((212, 312, 532, 555))} {number(3)} {number(2)} {number(2)}",
            f"+33 1 {number(2)} {number(2)} {number(2)} {number(2)}", f"+1 {number(3)}-{number(3)}-{number(4)}",
            f"0{number(3)} {number(6)}", f"({number(3)}) {number(3)}-{number(4)}", f"{number(3)}-{number(4)}")))

    def draw_room(self):
        return Value(self.rng.choice((str(self.rng.randint(1, 940)), self.rng.choice("ABCDE") + str(self.rng.randint(1, 420)))))

    def draw_flight(self):
        return Value(self.rng.choice("TK LH AF BA PC KL EK UA DL SK".split()) + self.rng.choice(("", " "))
                     + str(self.rng.randint(20, 9800)))

    def draw_ver(self):
        rng = self.rng
        return Value(".".join(str(rng.randint(0 if place else 1, 14)) for place in range(rng.choice((2, 3, 3)))))

    def draw_score(self):
        return Value(f"{self.rng.randint(0, 5)}{self.rng.choice('--–:')}{self.rng.randint(0, 5)}")

    def draw_range(self):
        low = self.rng.choice((self.rng.randint(1, 20), self.rng.randint(2, 18) * 5))
        return Value(f"{low}{self.rng.choice('-–')}{low + self.rng.choice((1, 2, 3, 5, 10))}")

    def draw_span(self):
        low = self.rng.randint(1, 9)
        return Value(f"{low}{self.rng.choice('-–')}{low + self.rng.randint(1, 5)}")

    def draw_code(self):
        letters = "".join(self.rng.choice("ABCDEFGHKLMNPRSTXZ") for _ in range(self.rng.choice((0, 2, 3))))
        mark = letters + "-" if letters else "#" if self.rng.random() < 0.4 else ""
        return Value(mark + str(self.rng.randint(1000, 9999999)))

    def draw_mail(self):
        name = unicodedata.normalize("NFKD", self.draw("f").texts["eng"].replace("ı", "i")).encode("ascii", "ignore").decode()
        host = self.rng.choice(("example.com", "example.org", "mail.example.net", "firma.example", "web.example"))
        return Value(f"{name.lower()}{self.rng.choice(('', '.' + str(self.rng.randint(1, 99)), '_info'))}@{host}")

    def draw_url(self):
        page = self.rng.choice("help contact shop blog about account orders faq news support".split())
        return Value(f"{self.rng.choice(('https://', 'www.', ''))}example.{self.rng.choice(('com', 'org', 'net'))}/{page}")
