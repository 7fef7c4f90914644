"""The sentence frames, in English, German and Chinese. Must import nothing of the project but `frames`.

German inflects, CLDR's forms do not: so in German a slot stands only where its form is that of the nominative, which is
true of countries and languages without an article after any preposition, of measures in the accusative, of Megabyte and
Grad in all cases, and of CLDR's own phrases of relative time.
"""

from pipeline.cldr_bitext.frames import Frame, frame

LANGUAGES = ("en", "de", "zh")

FRAMES: tuple[Frame, ...] = (
    frame(
        "flew",
        en="She flew from {country} to {country2} {past}.",
        de="Sie ist {past} von {country} nach {country2} geflogen.",
        zh="她{past}从{country}飞到了{country2}。",
    ),
    frame(
        "moves",
        en="{future} he will move from {country} to {country2}.",
        de="Er zieht {future} von {country} nach {country2}.",
        zh="他{future}将从{country}搬到{country2}。",
    ),
    frame(
        "meeting",
        en="The meeting on {full_date} starts at {time}.",
        de="Am {full_date} beginnt die Sitzung um {time} Uhr.",
        zh="会议于{full_date}{time}开始。",
    ),
    frame(
        "train",
        en="The train to {country} leaves at {time} from platform {count}.",
        de="Der Zug nach {country} fährt um {time} Uhr von Gleis {count} ab.",
        zh="开往{country}的列车{time}从{count}号站台出发。",
    ),
    frame(
        "speaks",
        en="At home she speaks {languages}.",
        de="Zu Hause spricht sie {languages}.",
        zh="她在家说{languages}。",
    ),
    frame(
        "subtitles",
        en="The film from {country} is in {language} and has subtitles in {language2}.",
        de="Der Film aus {country} läuft auf {language} und hat Untertitel auf {language2}.",
        zh="这部{country}电影的语言是{language}，配有{language2}字幕。",
    ),
    frame(
        "manual",
        en="The manual has {count} pages and is available in {languages}.",
        de="Die Anleitung hat {count} Seiten und ist auf {languages} erhältlich.",
        zh="说明书共{count}页，有{languages}版本。",
    ),
    frame(
        "studied",
        en="He studied {language} in {country} for {duration}.",
        de="Er hat {duration} lang in {country} {language} gelernt.",
        zh="他在{country}学了{duration}{language}。",
    ),
    frame(
        "package",
        en="The package from {country} weighs {mass} and costs {price}.",
        de="Das Paket aus {country} wiegt {mass} und kostet {price}.",
        zh="来自{country}的包裹重{mass}，价格为{price}。",
    ),
    frame(
        "bridge",
        en="The bridge in {country} is {length} long and {length2} wide.",
        de="In {country} ist die Brücke {length} lang und {length2} breit.",
        zh="{country}的这座桥长{length}，宽{length2}。",
    ),
    frame(
        "tower",
        en="The tower was built in {month} and is {length} high.",
        de="Der Turm wurde im {month} gebaut und ist {length} hoch.",
        zh="这座塔建于{month}，高{length}。",
    ),
    frame(
        "farm",
        en="The farm in {country} covers {area} and was sold {past}.",
        de="Der Hof in {country} ist {area} groß und wurde {past} verkauft.",
        zh="{country}的这座农场占地{area}，{past}已售出。",
    ),
    frame(
        "weather",
        en="It was {temperature} in {country} on {day}.",
        de="Am {day} waren es in {country} {temperature}.",
        zh="{day}，{country}的气温是{temperature}。",
    ),
    frame(
        "change",
        en="The temperature in {country} changed from {temperature} to {temperature2}.",
        de="In {country} änderte sich die Temperatur von {temperature} auf {temperature2}.",
        zh="{country}的气温从{temperature}变为{temperature2}。",
    ),
    frame(
        "file",
        en="The file from {day} has {storage} and {count} pages.",
        de="Die Datei vom {day} hat {storage} und {count} Seiten.",
        zh="{day}的文件大小为{storage}，共{count}页。",
    ),
    frame(
        "download",
        en="It takes {duration} to download {storage}.",
        de="Das Herunterladen von {storage} dauert {duration}.",
        zh="下载{storage}需要{duration}。",
    ),
    frame(
        "machine",
        en="The machine from {country} uses {power} and runs for {duration}.",
        de="Die Maschine aus {country} braucht {power} und läuft {duration}.",
        zh="{country}产的机器功率为{power}，可运行{duration}。",
    ),
    frame(
        "drove",
        en="For {duration} the car drove at {speed}.",
        de="Das Auto fuhr {duration} lang {speed}.",
        zh="汽车以{speed}的速度行驶了{duration}。",
    ),
    frame(
        "tank",
        en="The tank holds {volume} of water and costs {amount}.",
        de="Der Tank fasst {volume} Wasser und kostet {amount}.",
        zh="这个水箱可装{volume}水，价格为{amount}。",
    ),
    frame(
        "energy",
        en="The house in {country} used {energy} of energy in {month}.",
        de="Im {month} verbrauchte das Haus in {country} {energy} Energie.",
        zh="{month}，{country}的这栋房子消耗了{energy}的能量。",
    ),
    frame(
        "ticket",
        en="The ticket to {country} costs {amount} and is valid for {duration}.",
        de="Die Fahrkarte nach {country} kostet {amount} und gilt {duration}.",
        zh="去{country}的票价是{amount}，有效期为{duration}。",
    ),
    frame(
        "exchange",
        en="He exchanged {amount} for {amount2} on {day}.",
        de="Am {day} tauschte er {amount} in {amount2}.",
        zh="{day}，他把{amount}换成了{amount2}。",
    ),
    frame(
        "company",
        en="The company has {number} employees in {country}.",
        de="In {country} beschäftigt die Firma {number} Menschen.",
        zh="这家公司在{country}有{number}名员工。",
    ),
    frame(
        "speakers",
        en="About {percent} of the people in {country} speak {language}.",
        de="In {country} sprechen etwa {percent} der Menschen {language}.",
        zh="在{country}，大约{percent}的人说{language}。",
    ),
    frame(
        "exports",
        en="Exports to {country} grew by {percent} in {month}.",
        de="Im {month} stiegen die Exporte nach {country} um {percent}.",
        zh="{month}，对{country}的出口增长了{percent}。",
    ),
    frame(
        "store",
        en="On {day} the store opens at {time} and closes at {time2}.",
        de="Der Laden öffnet am {day} um {time} Uhr und schließt um {time2} Uhr.",
        zh="{day}，商店{time}开门，{time2}关门。",
    ),
    frame(
        "born",
        en="She was born in {country} on {date}.",
        de="Sie wurde am {date} in {country} geboren.",
        zh="她于{date}出生在{country}。",
    ),
    frame(
        "letters",
        en="The letters from {country} are dated {date} and {date2}.",
        de="Die Briefe aus {country} sind vom {date} und vom {date2}.",
        zh="来自{country}的信件日期分别为{date}和{date2}。",
    ),
    frame(
        "pay",
        en="Please pay {price} by {short_date}.",
        de="Bitte zahlen Sie bis zum {short_date} {price}.",
        zh="请在{short_date}之前支付{price}。",
    ),
    frame(
        "course",
        en="The {language} course starts {future} and costs {price}.",
        de="Der Kurs in {language} beginnt {future} und kostet {price}.",
        zh="{language}课程{future}开始，费用为{price}。",
    ),
    frame(
        "visited",
        en="Last year we visited {countries}.",
        de="Wir haben letztes Jahr {countries} besucht.",
        zh="去年我们去了{countries}。",
    ),
    frame(
        "match",
        en="The team from {country} beat the team from {country2} on {day}.",
        de="Am {day} schlug die Mannschaft aus {country} die Mannschaft aus {country2}.",
        zh="{day}，{country}队战胜了{country2}队。",
    ),
    frame(
        "letter",
        en="The last letter in {language} arrived from {country} {past}.",
        de="Der letzte Brief auf {language} kam {past} aus {country} an.",
        zh="上一封{language}信是{past}从{country}寄到的。",
    ),
    frame(
        "journey",
        en="The journey through {countries} took {duration}.",
        de="Die Reise durch {countries} dauerte {duration}.",
        zh="穿越{countries}的旅程用了{duration}。",
    ),
    frame(
        "harvest",
        en="The harvest in {country} was {mass} in {month}.",
        de="Im {month} betrug die Ernte in {country} {mass}.",
        zh="{month}，{country}的收成为{mass}。",
    ),
    frame(
        "oil",
        en="They ordered {volume} of oil from {country} {past}.",
        de="Sie haben {past} {volume} Öl aus {country} bestellt.",
        zh="他们{past}从{country}订购了{volume}油。",
    ),
    frame(
        "exam",
        en="In {month}, {percent} of the students passed the {language} exam.",
        de="Im {month} haben {percent} der Studierenden die Prüfung in {language} bestanden.",
        zh="{month}，{percent}的学生通过了{language}考试。",
    ),
    frame(
        "embassy",
        en="The embassy of {country} in {country2} opens at {time}.",
        de="Die Botschaft von {country} in {country2} öffnet um {time} Uhr.",
        zh="{country}驻{country2}大使馆{time}开门。",
    ),
)
