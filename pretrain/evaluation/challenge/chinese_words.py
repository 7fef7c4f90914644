"""Chinese words by kind, with the forms that templates use. Must not import anything but the template language.

Every kind has at least 30 words. A list holds what its templates can say of any of its words: the nouns of one
classifier take no other of those it is set against, traits are of persons, qualities of things.
"""

from pretrain.evaluation.challenge.templates import Word


def single(words: str) -> tuple[Word, ...]:
    """Words with one form."""
    return tuple({"": word} for word in words.split())


def _verb_object(pairs: str) -> tuple[Word, ...]:
    split = (pair.split("+") for pair in pairs.split())
    return tuple({"whole": verb + thing, "verb": verb, "object": thing} for verb, thing in split)


def _verb_result(pairs: str) -> tuple[Word, ...]:
    split = (pair.split("+") for pair in pairs.split())
    return tuple({"whole": verb + result, "verb": verb, "result": result} for verb, result in split)


CHINESE_WORDS: dict[str, tuple[Word, ...]] = {
    "person": single(
        "老师 学生 医生 工程师 司机 农民 工人 护士 警察 记者 律师 作家 画家 歌手 演员 经理 邻居 客人 老板 校长 "
        "教授 厨师 店员 导游 科学家 邮递员 服务员 船长 队长 裁判 售货员 理发师 翻译 编辑"
    ),
    "name": single(
        "小王 小李 小张 小刘 小陈 小杨 小赵 小黄 小周 小吴 小徐 小孙 小胡 小朱 小林 小何 小郭 小马 小罗 小梁 "
        "小宋 小郑 小谢 小韩 小唐 小冯 小董 小程 小曹 小袁 小邓 小许"
    ),
    "place": single(
        "学校 公园 图书馆 办公室 教室 超市 医院 银行 车站 机场 饭店 商店 邮局 宿舍 厨房 花园 工厂 博物馆 电影院 "
        "书店 体育馆 餐厅 咖啡馆 广场 市场 酒店 实验室 会议室 动物园 教堂 剧院 码头"
    ),
    # Things that a person can hold, buy and lose.
    "thing": single(
        "箱子 手机 电脑 雨伞 帽子 钥匙 钱包 手表 相机 花瓶 杯子 盒子 玩具 礼物 词典 毛巾 书包 眼镜 篮球 吉他 "
        "耳机 台灯 闹钟 水壶 梳子 镜子 剪刀 手套 围巾 袋子 篮子 瓶子 盘子 饭盒"
    ),
    # Nouns counted with 本, 张, 辆, 只, 件 and 条. Templates set only those against each other that share no noun.
    "volume": single(
        "书 小说 词典 杂志 笔记本 课本 画册 相册 字典 诗集 护照 账本 作业本 漫画书 故事书 地图册 说明书 手册 "
        "名著 回忆录 散文集 论文集 小册子 英语书 语法书 传记 练习册 剧本 童话书 历史书 数学书 旧书"
    ),
    "sheet": single(
        "纸 桌子 床 照片 票 地图 报纸 卡片 名片 邮票 车票 电影票 门票 机票 唱片 光盘 信用卡 银行卡 饼 书桌 餐桌 "
        "办公桌 沙发 明信片 贺卡 表格 收据 发票 试卷 支票 海报 火车票 登机牌 身份证"
    ),
    "vehicle": single(
        "车 汽车 自行车 卡车 公共汽车 出租车 摩托车 救护车 消防车 警车 三轮车 轿车 货车 面包车 校车 跑车 马车 "
        "电动车 吉普车 房车 电车 旅游车 洒水车 婚车 客车 大巴 越野车 赛车 手推车 婴儿车 购物车 牛车"
    ),
    "animal": single(
        "猫 鸟 鸡 鸭子 兔子 老虎 猴子 羊 蝴蝶 蜜蜂 青蛙 老鼠 蚂蚁 狐狸 熊猫 狮子 鹅 鸽子 麻雀 松鼠 乌龟 豹子 "
        "猫头鹰 鹦鹉 孔雀 企鹅 袋鼠 公鸡 母鸡 小猫 燕子 乌鸦 螃蟹 蚊子 蜘蛛 刺猬"
    ),
    "garment": single(
        "衣服 衬衫 毛衣 外套 大衣 上衣 风衣 雨衣 羽绒服 棉袄 夹克 背心 旗袍 礼服 礼物 家具 婚纱 校服 "
        "睡衣 制服 运动服 皮衣 马甲 内衣 汗衫 礼品 乐器 古董 工作服 羊毛衫 棉衣 新衣服"
    ),
    "strip": single(
        "裤子 裙子 鱼 毛巾 围巾 领带 绳子 项链 牛仔裤 短裤 连衣裙 金鱼 鲤鱼 手链 皮带 腰带 毯子 丝巾 手绢 西裤 "
        "长裤 头巾 浴巾 鲨鱼 草鱼 小船 蛇 小蛇 水管 铁链 麻绳 内裤 棉裤 运动裤"
    ),
    # What can be done with a thing and not with a person, nor by a thing (no 压坏, 弄湿), each with its result, so that
    # 把 and 被 can stand before it.
    "dispose": single(
        "拿走 卖掉 扔掉 弄坏 弄丢 带走 买走 偷走 借走 送走 丢掉 取走 运走 抢走 收走 换掉 拿开 移开 拿出去 扔出去 "
        "寄走 领走 退掉 踩坏 卖出去 送出去 借出去 寄出去 租出去 提走 捡走 换走"
    ),
    # Verbs that can stand before 的 with their object.
    "take": single(
        "买 卖 借 送 带 选 找 修 偷 丢 拿 寄 搬 租 换 用 洗 擦 收 要 挑 扔 藏 抢 拆 包 运 做 捡 订 抱 背 提 摸"
    ),
    # What persons do in places.
    "activity": single(
        "看书 吃饭 唱歌 跳舞 画画 上课 开会 跑步 散步 聊天 打球 写信 喝茶 照相 睡觉 做饭 上网 下棋 洗衣服 打电话 "
        "听音乐 看电影 写作业 看报纸 喝咖啡 等人 排队 休息 工作 学习 弹钢琴 练字 打牌"
    ),
    # What takes time and no object (讨论春节 is to discuss the festival).
    "last": single(
        "休息 工作 旅行 实习 加班 停留 值班 锻炼 演出 劳动 写作 出差 补课 露营 度假 巡逻 代课 住院 请假 留学 逗留 "
        "执勤 站岗 徒步 疗养 进修 任教 罢工 外出 自习 授课 开会"
    ),
    # What can be judged: before 得.
    "perform": single(
        "工作 学习 讨论 练习 准备 表演 介绍 检查 解释 研究 训练 回答 记录 采访 打扫 整理 收拾 说 讲 写 读 唱 跑 走 "
        "笑 跳 干 做 谈 聊 画 问 喊"
    ),
    # What happens at one moment.
    "leave": single(
        "出发 毕业 结婚 退休 回国 回家 搬家 出国 下班 放假 到家 睡着 离开 出院 开学 登机 到站 下车 辞职 成功 放弃 "
        "转学 动身 上台 迟到 搬走 升职 当选 破产 上车 出门 上班"
    ),
    "verb_object": _verb_object(
        "看+电视 听+音乐 喝+茶 吃+面条 写+信 画+油画 唱+民歌 打+篮球 弹+钢琴 做+饭 洗+衣服 拍+照片 包+饺子 买+菜 "
        "喂+猫 扫+地 骑+自行车 开+卡车 读+报纸 练+书法 踢+足球 织+毛衣 修+自行车 擦+窗户 种+花 钓+鱼 学+英语 "
        "下+象棋 讲+故事 煮+咖啡 烤+面包 切+西瓜 整理+房间 打扫+教室"
    ),
    "achieve": _verb_result(
        "看+见 听+见 找+到 买+到 看+懂 听+懂 做+完 写+完 吃+完 记+住 拿+到 学+会 看+清 听+清 办+成 修+好 打+开 "
        "搬+动 赶+上 追+上 猜+到 想+到 考+上 抓+住 收+到 借+到 见+到 改+掉 卖+掉 解+开 关+上 读+完 认+出 "
        "算+对 站+稳 说+清"
    ),
    # Of persons.
    "trait": single(
        "高 矮 胖 瘦 忙 累 穷 聪明 努力 年轻 漂亮 勇敢 认真 热情 善良 勤劳 活泼 骄傲 谦虚 幽默 细心 耐心 诚实 "
        "大方 小气 懒 老实 友好 冷静 成熟 乐观 紧张 着急 可爱"
    ),
    # Of things.
    "quality": single(
        "贵 便宜 新 旧 大 小 好 漂亮 结实 干净 脏 重 轻 特别 普通 难看 好看 有用 精致 高级 奇怪 时髦 实用 耐用 "
        "珍贵 简单 复杂 完整 光滑 沉 破 丑"
    ),
    # How something is done on purpose.
    "manner": single(
        "高兴 认真 仔细 努力 耐心 热情 安静 小心 愉快 轻松 勇敢 温柔 亲切 大方 积极 冷静 平静 自然 快乐 开心 诚恳 "
        "坚定 严肃 从容 熟练 专心 主动 大胆 优雅 灵活 细心 准确 自信 镇定 友好 谦虚 礼貌"
    ),
    # Points of time that may be past or to come, and lengths of time.
    "time": single(
        "星期一 星期二 星期三 星期四 星期五 星期六 星期天 一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 十一月 "
        "十二月 早上 中午 下午 晚上 春天 夏天 秋天 冬天 周末 月底 月初 年底 春节"
    ),
    "span": single(
        " ".join(number + unit for unit in ("天", "个星期", "个月") for number in "两三四五六七八九十")
        + " 一个星期 一个月 几个星期 几个月"
    ),
}
