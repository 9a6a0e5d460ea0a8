// The emoji that people and bots use most, by their short names; any other name is shown as it is typed.

const NAMES = `
smile 😄 smiley 😃 grinning 😀 grin 😁 laughing 😆 joy 😂 rofl 🤣 slightly_smiling_face 🙂 wink 😉 blush 😊 innocent 😇
heart_eyes 😍 kissing_heart 😘 yum 😋 stuck_out_tongue 😛 sunglasses 😎 thinking_face 🤔 neutral_face 😐 expressionless 😑
smirk 😏 unamused 😒 roll_eyes 🙄 grimacing 😬 relieved 😌 pensive 😔 sleeping 😴 mask 😷 dizzy_face 😵 exploding_head 🤯
confused 😕 worried 😟 open_mouth 😮 flushed 😳 cry 😢 sob 😭 scream 😱 sweat 😓 sweat_smile 😅 angry 😠 rage 😡
skull 💀 ghost 👻 robot_face 🤖 wave 👋 raised_hand ✋ ok_hand 👌 +1 👍 thumbsup 👍 -1 👎 thumbsdown 👎 clap 👏
raised_hands 🙌 pray 🙏 muscle 💪 point_up ☝️ point_right 👉 point_left 👈 point_down 👇 eyes 👀 brain 🧠 bust_in_silhouette 👤
heart ❤️ orange_heart 🧡 yellow_heart 💛 green_heart 💚 blue_heart 💙 purple_heart 💜 broken_heart 💔 fire 🔥 sparkles ✨ star ⭐
star2 🌟 boom 💥 zap ⚡ sunny ☀️ sunrise 🌅 cloud ☁️ rainbow 🌈 snowflake ❄️ umbrella ☔ ocean 🌊 seedling 🌱 evergreen_tree 🌲 cactus 🌵
tada 🎉 confetti_ball 🎊 balloon 🎈 gift 🎁 trophy 🏆 medal 🏅 first_place_medal 🥇 dart 🎯 game_die 🎲 art 🎨 beers 🍻 coffee ☕
pizza 🍕 cake 🍰 taco 🌮 apple 🍎 dog 🐶 cat 🐱 bug 🐛 bee 🐝 turtle 🐢 snail 🐌 unicorn_face 🦄 whale 🐳 crab 🦀
rocket 🚀 airplane ✈️ car 🚗 ship 🚢 construction 🚧 rotating_light 🚨 traffic_light 🚥 vertical_traffic_light 🚦 checkered_flag 🏁
hourglass ⌛ hourglass_flowing_sand ⏳ watch ⌚ alarm_clock ⏰ stopwatch ⏱️ calendar 📆 date 📅 clock1 🕐 timer_clock ⏲️
computer 💻 desktop_computer 🖥️ keyboard ⌨️ floppy_disk 💾 cd 💿 phone ☎️ iphone 📱 battery 🔋 electric_plug 🔌 bulb 💡 wrench 🔧
hammer 🔨 gear ⚙️ hammer_and_wrench 🛠️ nut_and_bolt 🔩 toolbox 🧰 link 🔗 lock 🔒 unlock 🔓 key 🔑 mag 🔍 microscope 🔬 package 📦
mailbox 📫 email ✉️ envelope ✉️ inbox_tray 📥 outbox_tray 📤 memo 📝 pencil 📝 clipboard 📋 pushpin 📌 paperclip 📎 scissors ✂️
file_folder 📁 open_file_folder 📂 bar_chart 📊 chart_with_upwards_trend 📈 chart_with_downwards_trend 📉 books 📚 book 📖
newspaper 📰 label 🏷️ moneybag 💰 credit_card 💳 shield 🛡️ bell 🔔 no_bell 🔕 mute 🔇 speaker 🔈 mega 📣 loudspeaker 📢 speech_balloon 💬
white_check_mark ✅ heavy_check_mark ✔️ ballot_box_with_check ☑️ x ❌ negative_squared_cross_mark ❎ heavy_multiplication_x ✖️
warning ⚠️ exclamation ❗ heavy_exclamation_mark ❗ question ❓ grey_question ❔ bangbang ‼️ no_entry ⛔ no_entry_sign 🚫
octagonal_sign 🛑 stop_sign 🛑 information_source ℹ️ red_circle 🔴 large_orange_circle 🟠 large_yellow_circle 🟡
large_green_circle 🟢 large_blue_circle 🔵 large_purple_circle 🟣 white_circle ⚪ black_circle ⚫ large_red_square 🟥
large_green_square 🟩 large_yellow_square 🟨 arrow_up ⬆️ arrow_down ⬇️ arrow_left ⬅️ arrow_right ➡️ arrow_forward ▶️
arrow_backward ◀️ double_vertical_bar ⏸️ pause_button ⏸️ black_square_for_stop ⏹️ rewind ⏪ fast_forward ⏩ repeat 🔁
arrows_counterclockwise 🔄 leftwards_arrow_with_hook ↩️ arrow_right_hook ↪️ recycle ♻️ heavy_plus_sign ➕ heavy_minus_sign ➖
infinity ♾️ 100 💯 new 🆕 sos 🆘 ok 🆗 up 🆙 free 🆓 one 1️⃣ two 2️⃣ three 3️⃣ four 4️⃣ five 5️⃣ zero 0️⃣ hash #️⃣
ambulance 🚑 hospital 🏥 house 🏠 office 🏢 factory 🏭 earth_africa 🌍 earth_americas 🌎 globe_with_meridians 🌐 world_map 🗺️
man 👨 woman 👩 family 👪 baby 👶 cop 👮 detective 🕵️ ninja 🥷 wastebasket 🗑️ broom 🧹 test_tube 🧪 dna 🧬 pill 💊 thermometer 🌡️
`;

const BY_NAME = new Map();
const words = NAMES.trim().split(/\s+/);
for (let i = 0; i + 1 < words.length; i += 2) BY_NAME.set(words[i], words[i + 1]);

export const emoji = (name) => BY_NAME.get(name.split("::")[0]);
export const emojiNames = () => [...BY_NAME.keys()];
export const COMMON = ["+1", "white_check_mark", "eyes", "tada", "heart", "joy", "rocket", "warning", "x", "pray", "100", "thinking_face"];
