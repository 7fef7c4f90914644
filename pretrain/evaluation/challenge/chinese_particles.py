"""Chinese phenomena of small words: classifiers, 比, 吗, 的 得 地, 们, pairs of conjunctions. Must not import torch.

The language of the templates is that of `templates.py`, with spaces between words; how each group balances itself is
said in `chinese.py`.
"""

from pretrain.evaluation.challenge.templates import templates_of

# A noun is counted with its own classifier.
CLASSIFIER = templates_of(
    "classifier",
    bought=("{person} 买 了 一 [本/辆] {volume}。", "{person} 买 了 一 [辆/本] {vehicle}。"),
    there=("那里 有 两 [张/辆] {sheet}。", "那里 有 两 [辆/张] {vehicle}。"),
    saw=("{name} 看见 了 一 [只/辆] {animal}。", "{name} 看见 了 一 [辆/只] {vehicle}。"),
    this=("这 [件/本] {garment} 是 {name} 的。", "这 [本/件] {volume} 是 {name} 的。"),
    question=("{name} 有 几 [条/辆] {strip}？", "{name} 有 几 [辆/条] {vehicle}？"),
    lost=("昨天 {person} 丢 了 一 [条/本] {strip}。", "昨天 {person} 丢 了 一 [本/条] {volume}。"),
    please=("请 给 我 一 [张/件] {sheet}。", "请 给 我 一 [件/张] {garment}。"),
    which=("哪 [只/本] {animal} 最 好看？", "哪 [本/只] {volume} 最 好看？"),
    drew=("{name} 画 了 一 [只/件] {animal}。", "{name} 画 了 一 [件/只] {garment}。"),
    every=("每 [辆/条] {vehicle} 都 很 贵。", "每 [条/辆] {strip} 都 很 贵。"),
)

# 比 goes with 更 or a difference, never with 很 or 一样; 跟 goes with 一样.
COMPARISON = templates_of(
    "comparison",
    more=("{name} 比 {name2} [更/很] {trait}。", "{name} {trait} 得 [很/更]。"),
    a_little=("{name} [比/跟] {name2} {trait} 一点。", "{name} [跟/比] {name2} 一样 {trait}。"),
    same=("{name} 比 {name2} [更/一样] {trait}。", "{name} 跟 {name2} [一样/更] {trait}。"),
    much=("{name} [比/跟] {name2} {trait} 得 多。", "{name} [跟/比] {name2} 差不多 {trait}。"),
    less=("{name} 没有 {name2} [那么/更] {trait}。", "{name} 比 {name2} [更/那么] {trait}。"),
    before=("{person} 比 以前 [更/很] {trait} 了。", "{person} 现在 {trait} 得 [很/更]。"),
    thing=("这 个 {thing} 比 那 个 [更/很] {quality}。", "这 个 {thing} {quality} 得 [很/更]。"),
    year=(
        "今年 的 {thing} [比/跟] 去年 的 {quality} 一些。",
        "今年 的 {thing} [跟/比] 去年 的 一样 {quality}。",
    ),
    like=("{person} 像 {name} [那么/更] {trait}。", "{person} 要 比 {name} [更/那么] {trait}。"),
    think=("我 觉得 {name} [比/跟] {name2} 还 {trait}。", "我 觉得 {name} [跟/比] {name2} 一样 {trait}。"),
)

# 吗 makes a question of a statement; what is a question already (A 不 A, 为什么, 还是) takes 呢.
QUESTION = templates_of(
    "question",
    go=("{name} 去 不 去 {place} [呢/吗]？", "难道 {name} 不 去 {place} [吗/呢]？"),
    why=("{name} 为什么 不 {activity} [呢/吗]？", "请问 {name} 在 {place} [吗/呢]？"),
    be=("{name} 是 不 是 {person} [呢/吗]？", "难道 {name} 不 是 {person} [吗/呢]？"),
    choice=("你 喜欢 {activity} 还是 {activity2} [呢/吗]？", "请问 你 喜欢 {activity} [吗/呢]？"),
    when=("{name} 什么 时候 去 {place} [呢/吗]？", "难道 {name} 去 过 {place} [吗/呢]？"),
    how=("我们 怎么 去 {place} [呢/吗]？", "请问 我们 可以 去 {place} [吗/呢]？"),
    can=("{person} 会 不 会 {activity} [呢/吗]？", "难道 {person} 不 会 {activity} [吗/呢]？"),
    have=("到底 有 没有 {thing} [呢/吗]？", "请问 这里 有 {thing} [吗/呢]？"),
    trait=("{name} 究竟 {trait} 不 {trait} [呢/吗]？", "难道 {name} 不 {trait} [吗/呢]？"),
    want=("你 到底 要 {thing} 还是 {thing2} [呢/吗]？", "请问 你 要 {thing} [吗/呢]？"),
)

# 的 before a noun, 地 before a verb, 得 after a verb. There is no contrast where 的 could make a noun of the verb
# (说的 is what was said) or 得 could say how far something goes (高兴得跳了起来, so glad that one jumped up).
DE_PARTICLE = templates_of(
    "de_particle",
    should=("{person} 应该 {manner} [地/得] {activity}。", "{person} {perform} [得/地] 很 {manner}。"),
    came=("{manner} [的/得] {person} 来 了。", "{person} 一定 {achieve.verb} [得/的] {achieve.result}。"),
    now=("{name} 正 {manner} [地/得] {activity} 呢。", "{name} {perform} [得/地] 特别 {manner}。"),
    a_person=(
        "这 是 一 个 很 {trait} [的/得] {person}。",
        "这 个 {person} {achieve.verb} [得/的] {achieve.result} 吗？",
    ),
    please=("请 {manner} [地/得] {activity}。", "他们 {perform} [得/地] 比 {name} {manner}。"),
    most=("这里 最 {trait} [的/得] 人 是 {name}。", "{name} 怎么 {achieve.verb} [得/的] {achieve.result} 呢？"),
    must=("你 要 {manner} [地/得] {activity}。", "你 要 {perform} [得/地] {manner} 一点。"),
    thing=("我 的 {thing} 是 最 {quality} [的/得]。", "我 的 {thing} {quality} [得/的] 很。"),
    want=("{person} 想 {manner} [地/得] {activity}。", "{person} {perform} [得/地] 不 太 {manner}。"),
    question=("你 能 {manner} [地/得] {activity} 吗？", "你 能 {perform} [得/地] {manner} 一点 吗？"),
)

# A noun with 们 is definite: it takes 这些 or 那些 and no number; after 大约, 将近 or 每 stands a number.
PLURAL = templates_of(
    "plural",
    came=("[这些/三 个] {person} 们 都 来 了。", "大约 来 了 [三 个/这些] {person}。"),
    trait=("[那些/五十 个] {person} 们 都 很 {trait}。", "将近 [五十 个/那些] {person} 走 了。"),
    know=("我 认识 [这些/两 位] {person} 们。", "每 [两 位/这些] {person} 坐 一 辆 车。"),
    busy=("[那些/十 个] {person} 们 正在 {activity}。", "大约 有 [十 个/那些] {person} 正在 {activity}。"),
    saw=("我 看见 [那些/四十 个] {person} 们 在 {place}。", "{place} 足足 有 [四十 个/那些] {person}。"),
    talk=("{name} 和 [那些/六 个] {person} 们 聊天。", "每 [六 个/那些] {person} 一 组。"),
    please=("请 [这些/八 位] {person} 们 先 坐。", "平均 每天 来 [八 位/这些] {person}。"),
    who=("[这些/七 个] {person} 们 是 谁？", "不 到 [七 个/这些] {person} 来 了。"),
    like=("{name} 喜欢 [这些/九 位] {person} 们。", "整整 [九 位/这些] {person} 来 了。"),
    thing=("[那些/二十 个] {person} 们 的 {thing} 很 {quality}。", "将近 [二十 个/那些] {person} 有 {thing}。"),
)

# The first half of a sentence says which conjunction the second half begins with.
CONNECTIVE = templates_of(
    "connective",
    although=(
        "虽然 {name} 很 {trait}，[但是/所以] 我 不 认识 他。",
        "因为 {name} 很 {trait}，[所以/但是] 我 认识 他。",
    ),
    only=("只有 {name} 来，我们 [才/就] {activity}。", "只要 {name} 来，我们 [就/才] {activity}。"),
    whether=("无论 {name} 来 不 来，我们 [都/才] {activity}。", "只有 {name} 来，我们 [才/都] {activity}。"),
    not_only=("{name} 不但 {trait}，[而且/而是] {trait2}。", "{name} 不 是 {person}，[而是/而且] {person2}。"),
    since=(
        "尽管 {name} 很 {trait}，[但是/那么] 我们 不 想 跟 他 {activity}。",
        "既然 {name} 很 {trait}，[那么/但是] 我们 就 跟 他 {activity} 吧。",
    ),
    rather=(
        "与其 在 这里 {activity}，[不如/而是] 去 {activity2}。",
        "{name} 不 是 在 {activity}，[而是/不如] 在 {activity2}。",
    ),
    as_soon=("{name} 一 到 {place} [就/才] {activity}。", "{name} 直到 {time} [才/就] {leave}。"),
    thing=(
        "因为 {thing} 太 {quality}，[所以/但是] {name} 很 在意。",
        "虽然 {thing} 很 {quality}，[但是/所以] {name} 不 在意。",
    ),
    therefore=(
        "由于 {name} 很 {trait}，[因此/可是] 大家 都 认识 他。",
        "虽然 {name} 很 {trait}，[可是/因此] 大家 都 不 认识 他。",
    ),
    either=(
        "{name} 要么 {activity}，[要么/但是] {activity2}。",
        "{name} 虽然 想 {activity}，[但是/要么] 没 时间。",
    ),
)
